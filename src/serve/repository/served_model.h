// A model with its versions: which are served, which gets a request, and what became of the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "repository/serving_state.h"
#include "serve/repository/version.h"

namespace sullae::serve {

enum class VersionState { loading, ready, refused, withdrawn, waiting };
const char* name_of(VersionState state);

struct VersionStatus {
  std::int64_t number = 0;
  VersionState state = VersionState::waiting;
  /// Why it is not served; or in what it differs, while it is, from its folder.
  std::string reason;
  /// While it is loaded.
  std::shared_ptr<const Version> version;
};

struct ModelStatus {
  std::string name;
  /// What answers requests that ask for no version; 0 for none.
  std::int64_t serving = 0;
  std::int64_t canary = 0;
  int canary_percent = 0;
  std::vector<VersionStatus> versions;
  /// Why there are none, or why the newest configuration is not used.
  std::string problem;
};

/// Any thread.
class ServedModel {
 public:
  /// Of the folder `name` of `repository`.
  ServedModel(const std::string& name, std::filesystem::path repository);

  const std::string& name() const { return name_; }

  /// Looks at the folder: loads versions that are new, drops what the policy does not want any
  /// more. The old version answers until the new one is ready. Reports what changed as log lines.
  /// Versions that are dropped come back in the result, to be destroyed once nobody uses them.
  ///
  /// A version that has just been written is loaded when it is as it was a moment ago, since
  /// copying may go on; the first call, and one with `at_once`, take what there is.
  std::vector<std::shared_ptr<Version>> update(bool at_once = false);
  /// Why the folder cannot be looked at now, for status().
  void report(const std::string& problem);
  /// All that are loaded, when the model is gone. It answers no more.
  std::vector<std::shared_ptr<Version>> take_versions();

  /// Whether a request takes its turn in the canary's share.
  enum class Turn { taken, left };

  /// The version that a request goes to: `number`, or else the one that is served, or the canary by
  /// its share. Throws RequestError (not_found, unavailable).
  std::shared_ptr<Version> choose(std::optional<std::int64_t> number,
                                  Turn turn = Turn::taken) const;
  /// Whether there is a version that answers.
  bool answers() const;
  /// Looks at the folder too, for versions that are not loaded.
  ModelStatus status() const;

  /// Withdraws the version that is served; the one before, which is loaded first where it is not,
  /// takes its place. Also after a restart. Throws RequestError (conflict) where there is none
  /// before, or it is refused: nothing changes then.
  std::int64_t roll_back();
  /// Sends `percent` of the requests to `number`, which is loaded first where it is not; 0 ends it,
  /// 100 makes it the one that is served with the next update(). Throws RequestError (not_found,
  /// invalid, and conflict where it is refused).
  void set_canary(std::int64_t number, int percent);
  /// Forgets why versions were refused or withdrawn, so that update() tries again.
  void forget_refusals();

 private:
  struct Files {
    std::int64_t bytes = 0;
    // Not 0, which is in the year 2174.
    std::filesystem::file_time_type newest = std::filesystem::file_time_type::min();
    bool operator==(const Files&) const = default;
  };
  struct Entry {
    VersionStatus status;  // without the version, which is here
    std::shared_ptr<Version> version;
    Files files;  // when it was tried
  };

  bool is_canarys(std::uint64_t turn) const;
  static Files look_at(const std::filesystem::path& directory);
  std::int64_t reference(const std::set<std::int64_t>& candidates) const;
  bool is_new(std::int64_t number, std::int64_t reference) const;
  bool is_promoted(std::int64_t number) const;
  std::set<std::int64_t> wanted(const std::set<std::int64_t>& candidates) const;
  std::set<std::int64_t> candidates(const std::set<std::int64_t>& found) const;
  void read_config();
  bool is_settled(std::int64_t number);
  std::string way_out() const;
  void load(std::int64_t number, const std::set<std::int64_t>& found);
  std::pair<std::unique_lock<std::mutex>, bool> make_ready(std::int64_t number);
  std::unique_lock<std::mutex> lock_with_ready(const std::function<std::int64_t()>& wanted);
  std::vector<std::shared_ptr<Version>> settle(const std::set<std::int64_t>& found);
  void choose_default(const std::set<std::int64_t>& keep);
  void answer_with(std::int64_t number);
  std::map<std::int64_t, Files> changed(const std::function<bool(const Entry&)>& is_asked);
  void forget_changed(const std::set<std::int64_t>& found);
  void tell_changed();
  bool lists_none_of(const std::set<std::int64_t>& found) const;
  std::int64_t next_to_load(const std::set<std::int64_t>& found,
                            const std::set<std::int64_t>& tried);
  void write_state();
  void keep_state();

  std::string name_;
  std::filesystem::path repository_;
  std::filesystem::path directory_;

  std::mutex update_mutex_;  // held by update(): one at a time
  std::mutex state_mutex_;
  repository::ServingState written_;  // guarded by state_mutex_: what the file says
  std::string unwritten_;             // guarded by state_mutex_: why it does not say what is now
  mutable std::mutex mutex_;
  ModelConfig config_;  // guarded by mutex_, as all below
  std::filesystem::file_time_type config_time_{};
  std::string config_problem_;  // why config.toml is not used
  std::string problem_;         // why the folder cannot be looked at
  std::map<std::int64_t, Entry> entries_;
  std::map<std::int64_t, Files> unsettled_;  // seen once, and perhaps still being copied
  bool looked_ = false;                      // update() has been called before
  std::set<std::int64_t> withdrawn_;
  std::set<std::int64_t> unpromoted_;
  const std::int64_t answered_before_;  // this server; 0 for none
  std::int64_t serving_ = 0;
  std::int64_t canary_;
  int canary_percent_;
  mutable std::uint64_t turn_ = 0;  // of requests, for the canary's share
};

}  // namespace sullae::serve
