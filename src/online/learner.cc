// learn_online(): rank 0 looks for what is to be trained, and all ranks train it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "base/log.h"
#include "online/model_stores.h"
#include "online/online_model.h"
#include "online/sample_source.h"
#include "repository/versions.h"
#include "storage/storage.h"
#include "sullae/online.h"
#include "sullae/torch.h"
#include "torch/broadcast_text.h"

namespace sullae {
namespace {

namespace fs = std::filesystem;
using namespace online;

constexpr const char* kNothing = "nothing";
constexpr const char* kEnd = "end";
constexpr const char* kJob = "job";

class Learner {
 public:
  Learner(const OnlineOptions& options, const World& world) : options_(options), world_(world) {
    if (world.rank() != 0 || options.source.topic.empty()) return;
    source_.emplace(options.source, options.repository / options.models.front(),
                    options.once ? SampleSource::Until::end : SampleSource::Until::ever);
  }

  void run(const std::stop_token& stop) {
    for (;;) {
      std::optional<Job> job;
      std::string message;
      if (world_.rank() == 0) {
        if (source_) source_->check();
        // What is there is stored first.
        const bool waits = options_.once && source_ && !source_->is_drained();
        if (!waits) job = next();
        // Samples are many: nobody else needs them where there is nobody else.
        const bool is_alone = world_.size() == 1;
        message = job ? is_alone ? kJob : to_text(*job) : ended(stop) && !waits ? kEnd : kNothing;
      }
      // Also a sign of life: the other ranks wait in it.
      message = broadcast_text(std::move(message), 0, world_);
      if (message == kEnd) return options_.once ? throw_problems() : void();
      if (message == kNothing) {
        if (world_.rank() == 0) std::this_thread::sleep_for(options_.poll);
        continue;
      }
      if (!job) job = job_from(message);
      message = {};
      train(*job);
    }
  }

 private:
  // Who is started again and again looks at how it ended.
  void throw_problems() const {
    std::vector<std::string> problems;
    for (const auto& [name, model] : models_) {
      if (!model->problem().empty())
        problems.push_back(fmt::format("model {} has not learnt: {}", name, model->problem()));
    }
    if (!problems.empty()) throw Error(fmt::format("{}", fmt::join(problems, "; ")));
  }

  bool ended(const std::stop_token& stop) const { return options_.once || stop.stop_requested(); }

  std::optional<Job> next() {
    leave_replaced();
    find_models();
    // From the one after the last, so that none waits for ever while another has much to learn.
    auto next = models_.upper_bound(last_);
    for (std::size_t i = 0; i < models_.size(); ++i, ++next) {
      if (next == models_.end()) next = models_.begin();
      const auto& [name, model] = *next;
      if (!model->is_in_place()) continue;
      if (options_.once && !done_.insert(name).second) continue;
      std::optional<Job> job;
      attempt(name, [&, &one = *model] { job = one.begin(options_.once); });
      if (job) {
        current_ = model.get();
        last_ = name;
        return job;
      }
    }
    return std::nullopt;
  }

  // A server writes into the file that has taken another's place.
  void leave_replaced() {
    for (auto one = models_.begin(); one != models_.end();) {
      const auto model = one++;
      if (model->second->is_in_place()) continue;
      const std::string name = model->first;  // which goes with the model
      attempt(name, [&] {
        model->second->expect_no_old_log();
        models_.erase(model);
      });
    }
  }

  // A model's file of samples may be damaged while others are whole, which learn on where nobody
  // waits for that model, or this round.
  void attempt(const std::string& name, const std::function<void()>& what) {
    try {
      what();
      problems_.erase(name);
    } catch (const std::exception& wrong) {
      if (!options_.models.empty() || options_.once) throw;
      if (std::exchange(problems_[name], wrong.what()) != wrong.what())
        log::warning("model {}: does not learn: {}", name, wrong.what());
    }
  }

  bool is_wanted(const std::string& name) const {
    return options_.models.empty() ||
           std::ranges::find(options_.models, name) != options_.models.end();
  }

  // Those that have samples; a server makes that file with the first.
  void find_models() {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(options_.repository, error)) {
      const auto name = entry.path().filename().string();
      std::error_code ignored;  // of a folder that may not be looked into
      if (models_.contains(name) || !is_wanted(name) ||
          !fs::exists(entry.path() / kExamplesFile, ignored))
        continue;
      attempt(name,
              [&] { models_.emplace(name, std::make_unique<OnlineModel>(entry.path(), name)); });
    }
    if (error)
      throw InputError(fmt::format("{}: {}", options_.repository.string(), error.message()));
  }

  void train(const Job& job) {
    try {
      auto refinement = train::find_recipe(job.description.recipe)
                            .refine(job.description, job.data, job.added, world_);
      const auto model = refinement.task->model();
      if (current_ != nullptr) load_checkpoint(current_->parent_file(), *model);
      model->to(local_device(world_));
      broadcast_parameters(*model, 0, world_);
      const auto result = train::fine_tune(refinement, job.first_changed, job.training, world_,
                                           [&](std::int64_t step, std::int64_t steps) {
                                             if (current_ != nullptr)
                                               current_->progress(step, steps);
                                           });
      if (current_ != nullptr && !current_->finish(result, *model)) done_.erase(last_);
    } catch (const std::exception& error) {
      if (current_ != nullptr) fail(error.what());
      // The other ranks may have gone on to where this one has not come.
      if (world_.size() > 1) throw;
    }
    current_ = nullptr;
  }

  void fail(const std::string& message) {
    bool is_kept = false;
    attempt(last_, [&] {
      // Of libtorch's messages the first line is for people.
      current_->fail(message.substr(0, message.find('\n')));
      is_kept = true;
    });
    // Whoever opens the file again ends what is not ended.
    if (!is_kept) models_.erase(last_);
  }

  const OnlineOptions& options_;
  World world_;
  // On rank 0.
  std::optional<SampleSource> source_;
  std::map<std::string, std::unique_ptr<OnlineModel>> models_;
  std::map<std::string, std::string> problems_;  // what was told of models that cannot learn
  std::string last_;                             // that was trained
  std::set<std::string> done_;                   // with `once`
  OnlineModel* current_ = nullptr;
};

}  // namespace

void learn_online(const OnlineOptions& options, const World& world, const std::stop_token& stop) {
  if (storage::is_remote(options.repository))
    throw InputError(
        fmt::format("{}: online learning publishes versions beside those that are served: expected "
                    "a folder of this host, and no store",
                    options.repository.string()));
  repository::expect_repository(options.repository);
  std::error_code error;
  for (const auto& name : options.models) {
    if (!fs::is_directory(options.repository / name, error))
      throw InputError(
          fmt::format("{}: there is no model '{}'", options.repository.string(), name));
  }
  if (!options.source.topic.empty() && options.models.size() != 1)
    throw InputError(
        fmt::format("{}: is read for one model: expected its name, and no other (--model)",
                    options.source.topic));
  Learner(options, world).run(stop);
}

}  // namespace sullae
