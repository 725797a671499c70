#include "sullae/ps/embedding.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "parallel/ps/core_options.h"
#include "ps/client/table_client.h"

namespace sullae::ps {
namespace {

constexpr const char* kEmbedding = "ps::Embedding";

void require_of_embedding(bool holds, const std::string& what) {
  if (!holds) throw InputError(fmt::format("{}: {}", kEmbedding, what));
}

TableShape table_shape_of(const EmbeddingOptions& options, const std::string& name) {
  require_of_embedding(options.dimension >= 1,
                       fmt::format("rows of {} elements: expected 1 or more", options.dimension));
  require_of_embedding(options.rows >= 0, fmt::format("{} rows: expected 0 or more", options.rows));
  require_of_embedding(
      options.deviation >= 0,
      fmt::format("rows that deviate by {}: expected 0 or more", options.deviation));
  return {.dimension = options.dimension,
          .deviation = options.deviation,
          .seed = mix64(options.seed ^ fnv1a(name)),
          .rows = options.rows};
}

std::span<const std::uint64_t> numbers_of(const torch::Tensor& ids) {
  return {reinterpret_cast<const std::uint64_t*>(ids.data_ptr<std::int64_t>()),
          static_cast<std::size_t>(ids.numel())};
}

template <class T>
torch::Tensor copy_to_tensor(const std::vector<T>& values, torch::IntArrayRef sizes,
                             torch::ScalarType type) {
  return torch::from_blob(const_cast<T*>(values.data()), sizes, type).clone();
}

}  // namespace

class EmbeddingImpl::Impl {
 public:
  Impl(const EmbeddingOptions& options, ClientOptions client)
      : options_(options),
        rate_(rate_of(options.rule)),
        rule_(core_rule(options.rule, kEmbedding)),
        name_(client.name),
        client_(std::move(client), table_shape_of(options, name_), rule_) {}

  torch::Tensor look_up(const torch::Tensor& ids) {
    require_of_embedding(ids.scalar_type() == torch::kInt64 && ids.device().is_cpu(),
                         fmt::format("numbers of rows that are {} on {}: expected int64 on the CPU",
                                     c10::toString(ids.scalar_type()), ids.device().str()));
    const auto [unique, places] = distinct(ids);
    torch::Tensor rows = torch::empty({unique.numel(), options_.dimension});
    client_.look_up(numbers_of(unique), rows.data_ptr<float>());
    if (options_.padding_id) rows.masked_fill_((unique == *options_.padding_id).unsqueeze(1), 0);
    if (torch::GradMode::is_enabled()) {
      rows.requires_grad_(true);
      pending_.push_back({unique, rows});
    }
    return torch::embedding(rows, places);
  }

  void step() {
    const torch::NoGradGuard guard;
    std::vector<torch::Tensor> all_ids;
    std::vector<torch::Tensor> gradients;
    for (const Pending& one : std::exchange(pending_, {})) {
      if (!one.rows.grad().defined()) continue;
      all_ids.push_back(one.ids);
      gradients.push_back(one.rows.grad());
    }
    torch::Tensor ids = torch::empty({0}, torch::kInt64);
    torch::Tensor gradient = torch::empty({0, options_.dimension});
    if (all_ids.size() == 1) {
      ids = all_ids.front();
      gradient = gradients.front();
    } else if (!all_ids.empty()) {
      torch::Tensor places;
      std::tie(ids, places) = distinct(torch::cat(all_ids));
      gradient = torch::zeros({ids.numel(), options_.dimension})
                     .index_add_(0, places, torch::cat(gradients));
    }
    if (options_.padding_id) {
      const auto kept = (ids != *options_.padding_id).nonzero().flatten();
      ids = ids.index_select(0, kept);
      gradient = gradient.index_select(0, kept);
    }
    gradient = gradient.contiguous();
    client_.push(numbers_of(ids), gradient.data_ptr<float>(), rate_);
  }

  // One that has no gradient yet may be about to have it.
  void forget() {
    std::erase_if(pending_, [](const Pending& one) { return one.rows.grad().defined(); });
  }

  TableRows gather() {
    Rows all;
    const std::int64_t steps = client_.pull_rows([&](const Rows& part) {
      all.ids.insert(all.ids.end(), part.ids.begin(), part.ids.end());
      all.data.insert(all.data.end(), part.data.begin(), part.data.end());
    });
    const auto rows = static_cast<std::int64_t>(all.ids.size());
    const auto ids = copy_to_tensor(all.ids, {rows}, torch::kInt64);
    const auto order = ids.argsort();
    const auto data = torch::from_blob(all.data.data(), {rows, copies(), options_.dimension})
                          .index_select(0, order);
    const auto part = [&](std::int64_t i) {
      return i < copies() ? data.select(1, i).contiguous() : torch::Tensor();
    };
    return {.ids = ids.index_select(0, order),
            .values = part(0),
            .first = part(1),
            .second = part(2),
            .steps = steps};
  }

  void scatter(const TableRows& rows) {
    check(rows);
    client_.clear(rows.steps);
    std::vector<torch::Tensor> parts{rows.values};
    if (copies() > 1) parts.push_back(rows.first);
    if (copies() > 2) parts.push_back(rows.second);
    const std::int64_t count = rows.ids.numel();
    constexpr std::int64_t kFloatsAtOnce = 4 << 20;
    const auto most =
        std::max<std::int64_t>(1, kFloatsAtOnce / static_cast<std::int64_t>(client_.width()));
    for (std::int64_t from = 0; from < count; from += most) {
      const std::int64_t to = std::min(count, from + most);
      std::vector<torch::Tensor> sliced;
      for (const torch::Tensor& part : parts) sliced.push_back(part.slice(0, from, to));
      const auto data = torch::stack(sliced, 1).contiguous();
      const auto ids = rows.ids.slice(0, from, to).contiguous();
      const auto numbers = numbers_of(ids);
      const auto* const floats = data.data_ptr<float>();
      client_.put_rows(
          {.ids = {numbers.begin(), numbers.end()}, .data = {floats, floats + data.numel()}});
    }
  }

  std::string describe() const {
    return fmt::format("sullae::ps::Embedding('{}', dimension={})", name_, options_.dimension);
  }

  TableClient& client() { return client_; }
  double& rate() { return rate_; }

 private:
  struct Pending {
    torch::Tensor ids;
    torch::Tensor rows;
  };

  // Values, and what the rule keeps.
  std::int64_t copies() const { return static_cast<std::int64_t>(1 + arrays_of(rule_)); }

  // Each once, and where each is in them.
  static std::pair<torch::Tensor, torch::Tensor> distinct(const torch::Tensor& ids) {
    const torch::NoGradGuard guard;
    const auto [unique, places, counts] =
        torch::_unique2(ids.reshape(-1), /*sorted=*/true, /*return_inverse=*/true);
    require_of_embedding(unique.numel() == 0 || unique[0].item<std::int64_t>() >= 0,
                         "a row with a number below 0: expected 0 or more");
    return {unique, places.view(ids.sizes())};
  }

  void check(const TableRows& rows) const {
    const std::int64_t count = rows.ids.defined() ? rows.ids.numel() : -1;
    const auto is_of = [&](const torch::Tensor& tensor, std::int64_t copy) {
      if (copy >= copies()) return true;
      return tensor.defined() && tensor.scalar_type() == torch::kFloat32 &&
             tensor.sizes() == torch::IntArrayRef{count, options_.dimension};
    };
    const bool are_numbers = rows.ids.defined() && rows.ids.scalar_type() == torch::kInt64 &&
                             rows.ids.dim() == 1 && (rows.ids >= 0).all().item<bool>();
    require_of_embedding(
        are_numbers && rows.steps >= 0 && is_of(rows.values, 0) && is_of(rows.first, 1) &&
            is_of(rows.second, 2),
        fmt::format("rows that are none of '{}': expected what gather() gives, with {} "
                    "elements in a row and the same rule",
                    name_, options_.dimension));
  }

  EmbeddingOptions options_;
  double rate_;
  Rule rule_;
  std::string name_;
  TableClient client_;
  std::vector<Pending> pending_;
};

EmbeddingImpl::EmbeddingImpl(const EmbeddingOptions& options, const WorkerOptions& worker)
    : impl_(std::make_unique<Impl>(options, client_options(worker, "embedding", kEmbedding))) {}
EmbeddingImpl::~EmbeddingImpl() = default;

torch::Tensor EmbeddingImpl::forward(const torch::Tensor& ids) { return impl_->look_up(ids); }
void EmbeddingImpl::step() { impl_->step(); }
void EmbeddingImpl::zero_grad(bool) { impl_->forget(); }
void EmbeddingImpl::rest() { impl_->client().rest(); }
void EmbeddingImpl::pull() { impl_->client().pull(); }
double EmbeddingImpl::learning_rate() const { return impl_->rate(); }
void EmbeddingImpl::set_learning_rate(double rate) { impl_->rate() = rate; }
Staleness EmbeddingImpl::staleness() const { return staleness_of(impl_->client().delays()); }
int EmbeddingImpl::staleness_bound() const { return impl_->client().staleness_bound(); }
TableRows EmbeddingImpl::gather() { return impl_->gather(); }
void EmbeddingImpl::scatter(const TableRows& rows) { impl_->scatter(rows); }
void EmbeddingImpl::pretty_print(std::ostream& stream) const { stream << impl_->describe(); }

}  // namespace sullae::ps
