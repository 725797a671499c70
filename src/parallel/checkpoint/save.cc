// Rank 0 lays the archive out and tells where everything goes; each rank writes what it has, into
// one file where it sees that, else by way of rank 0; with all checksums together rank 0 puts the
// rest in, and the file in its place.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "base/error_text.h"
#include "base/file.h"
#include "base/secret.h"
#include "parallel/checkpoint/checkpoint.h"
#include "parallel/checkpoint/outline.h"
#include "parallel/checkpoint/put_parts.h"
#include "parallel/flat.h"
#include "parallel/sharded_state.h"
#include "torch/agreement.h"
#include "torch/broadcast_text.h"
#include "torch/checkpoint_file.h"

namespace sullae {
namespace {

template <class Number>
std::string as_text(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}
template <class Number>
std::vector<Number> from_text(const std::string& text) {
  std::vector<Number> numbers(text.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), text.data(), numbers.size() * sizeof(Number));
  return numbers;
}

// What all ranks are told of the layout: for each parameter where its weights begin, how many
// moments it has, and where those begin.
Numbers places_of(const CheckpointOutline& outline, const ParameterParts& parts,
                  const std::vector<StateTensors>& states) {
  Numbers places;
  std::size_t content = 0;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const StateTensors& state = states[i];
    if (parts.outline_of(i).numel() == 0) {
      places.insert(places.end(), {0, 0});
      continue;
    }
    places.push_back(length(outline.contents[content++].offset));
    const auto moments =
        std::ranges::count_if(state, [](const auto& item) { return is_moment(item.second, 0); });
    places.push_back(moments);
    for (std::int64_t moment = 0; moment < moments; ++moment)
      places.push_back(length(outline.contents[content++].offset));
  }
  return places;
}

// On the way to root each part is announced, or that there are no more.
constexpr std::int64_t kComes = 1;
constexpr std::int64_t kFailed = 0;

// Runs `what`; what it throws is for all ranks to hear of.
std::string problem_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const PeerError&) {
    throw;
  } catch (const TimeoutError&) {
    throw;
  } catch (const std::exception& error) {  // also of the user's Maker
    return message_of(error);
  }
  return {};
}

// All ranks throw what any has met.
void throw_together(const World& world, const std::filesystem::path& file,
                    const std::string& problem) {
  const auto all = allgather_texts(world, problem);
  if (std::ranges::all_of(all, &std::string::empty)) return;
  // The first rank's alone has a name.
  const auto name = allgather_texts(world, file.string()).front();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const auto who = world.size() == 1 ? "" : fmt::format(" (rank {})", rank);
    throw Error(fmt::format("checkpoint {}: {}{}", name, all[rank], who));
  }
}

class Save {
 public:
  Save(const std::filesystem::path& file, const torch::nn::Module& module, ParameterParts& parts,
       const Sharded* sharded, const CheckpointOptions& options)
      : file_(file), module_(module), parts_(parts), sharded_(sharded), options_(options) {}

  void run() {
    lay_out();
    open();
    write();
    finish();
  }

 private:
  const World& world() const { return parts_.world(); }
  bool is_root() const { return world().rank() == kCheckpointRoot; }
  bool sees() const { return sees_[static_cast<std::size_t>(world().rank())] != 0; }

  void lay_out() {
    std::vector<StateTensors> states(parts_.all().size());
    for (std::size_t i = 0; i < states.size() && sharded_ != nullptr; ++i)
      states[i] = gather_outline(parts_, i, sharded_->optimizer, kCheckpointRoot);
    std::string problem;
    if (is_root())
      problem = problem_of([&] {
        outline_.emplace(sullae::lay_out(module_, parts_, sharded_, states, options_));
        output_.emplace(file_);
        start_ = draw_secret();
        output_->write(start_.data(), start_.size());
      });
    throw_together(world(), file_, problem);
    std::string places;
    if (is_root()) places = as_text(places_of(*outline_, parts_, states));
    places_ = from_text<std::int64_t>(broadcast_text(std::move(places), kCheckpointRoot, world()));
  }

  // Each rank sees the file, or not.
  void open() {
    const auto path =
        broadcast_text(is_root() ? output_->temporary().string() : "", kCheckpointRoot, world());
    start_ = broadcast_text(start_, kCheckpointRoot, world());
    std::int64_t sees = 1;
    if (!is_root() && !problem_of([&] { part_.emplace(path, start_); }).empty()) sees = 0;
    sees_.resize(static_cast<std::size_t>(world().size()));
    world().allgather(&sees, sees_.data(), 1, DataType::int64);
  }

  void write() {
    Crcs crcs;
    auto problem = problem_of([&] {
      crcs = put_parts(parts_, sharded_, places_,
                       [&](std::uint64_t offset, const void* data, std::size_t bytes) {
                         put(offset, data, bytes);
                       });
      if (is_root()) put_own();
      if (part_) part_->sync();
    });
    if (!problem.empty() && !sees())
      world().send(&kFailed, 1, DataType::int64, kCheckpointRoot, kCheckpointTag);
    if (is_root()) {
      for (int rank = 0; rank < world().size(); ++rank) {
        if (sees_[static_cast<std::size_t>(rank)] != 0) continue;
        const auto met = receive_parts(rank);
        if (problem.empty()) problem = met;
      }
    }
    throw_together(world(), file_, problem);
    const auto all = allgather_texts(world(), as_text(crcs));
    if (!is_root()) return;
    for (const std::string& its : all) crcs_.push_back(from_text<std::uint32_t>(its));
  }

  void put(std::uint64_t offset, const void* data, std::size_t bytes) {
    if (is_root()) return output_->write_at(offset, data, bytes);
    if (part_) return part_->write_at(offset, data, bytes);
    world().send(&kComes, 1, DataType::int64, kCheckpointRoot, kCheckpointTag);
    const auto* const from = static_cast<const char*>(data);
    for (std::size_t at = 0; at < bytes; at += kCheckpointMessage)
      world().send(from + at, std::min(kCheckpointMessage, bytes - at), DataType::uint8,
                   kCheckpointRoot, kCheckpointTag);
  }

  void put_own() {
    for (const Content& content : outline_->contents) {
      if (!content.own.defined()) continue;
      const torch::Tensor flat = flat_of(content.own).to(torch::kCPU);
      const auto bytes = static_cast<std::size_t>(flat.numel()) * content.element_bytes;
      output_->write_at(content.offset, flat.data_ptr(), bytes);
      own_crcs_.push_back(extend_crc(0, flat.data_ptr(), bytes));
    }
  }

  // All of them, also where they cannot be written.
  std::string receive_parts(int rank) {
    std::string problem;
    std::string bytes;
    for (const Content& content : outline_->contents) {
      for (const Part& part : content.parts) {
        if (part.rank != rank) continue;
        std::int64_t what = kFailed;
        world().receive(&what, 1, DataType::int64, rank, kCheckpointTag);
        if (what == kFailed) return problem;  // and says why with all others
        const std::uint64_t begin = content.offset + part.from * content.element_bytes;
        const std::size_t size = (part.to - part.from) * content.element_bytes;
        for (std::size_t at = 0; at < size; at += kCheckpointMessage) {
          bytes.resize(std::min(kCheckpointMessage, size - at));
          world().receive(bytes.data(), bytes.size(), DataType::uint8, rank, kCheckpointTag);
          if (problem.empty())
            problem =
                problem_of([&] { output_->write_at(begin + at, bytes.data(), bytes.size()); });
        }
      }
    }
    return problem;
  }

  void finish() {
    std::string problem;
    if (is_root()) problem = problem_of([&] { put_rest(); });
    output_.reset();
    throw_together(world(), file_, problem);
  }

  void put_rest() {
    Crcs whole;
    std::vector<std::size_t> next(crcs_.size(), 0);
    std::size_t next_own = 0;
    for (const Content& content : outline_->contents) {
      std::uint32_t crc = 0;
      for (const Part& part : content.parts) {
        const auto rank = static_cast<std::size_t>(part.rank);
        const std::uint32_t its =
            content.own.defined() ? own_crcs_[next_own++] : crcs_[rank].at(next[rank]++);
        crc = join_crcs(crc, its, (part.to - part.from) * content.element_bytes);
      }
      whole.push_back(crc);
    }
    CheckpointFooter footer;
    footer.crc = outline_->layout.put_checksums(whole);
    footer.length = outline_->layout.length();
    for (const auto& [offset, bytes] : outline_->layout.rest())
      output_->write_at(offset, bytes.data(), bytes.size());
    output_->write_at(footer.length, &footer, sizeof footer);
    output_->commit();
  }

  const std::filesystem::path& file_;
  const torch::nn::Module& module_;
  ParameterParts& parts_;
  const Sharded* sharded_;  // null: weights alone
  const CheckpointOptions& options_;
  Numbers places_;
  std::string start_;
  Numbers sees_;                    // by rank
  std::optional<PartOfFile> part_;  // of others than root, where they see it
  // Of root.
  std::optional<CheckpointOutline> outline_;
  std::optional<AtomicFile> output_;
  std::vector<Crcs> crcs_;  // by rank
  Crcs own_crcs_;
};

}  // namespace

void save_parts(const std::filesystem::path& file, const torch::nn::Module& module,
                ParameterParts& parts, const Sharded* sharded, const CheckpointOptions& options) {
  const auto save = [&] {
    Save(file, module, parts, sharded, options).run();
  };
  // Replicas have the same: those of the first world save.
  if (const World* const replicas = parts.replicas()) return on_root(*replicas, 0, save);
  save();
}

}  // namespace sullae
