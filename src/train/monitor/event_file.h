// TensorBoard's event files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/best_effort.h"
#include "sullae/train/observer.h"

namespace sullae::train {

/// For rank 0: appends scalars to a new file in a folder, where TensorBoard finds them at once,
/// every `interval` steps and after each epoch. Used by one thread.
class EventFile final : public Observer {
 public:
  /// Makes the folder. Throws Error.
  EventFile(const std::filesystem::path& folder, int interval);

  void started(const Report& report) override { tested_ = report.tested; }
  void stepped(const Moment& moment) override;
  void epoch_ended(const Moment& moment, const EpochReport& epoch) override;

 private:
  void write(std::int64_t step, const std::map<std::string, double>& scalars);
  void append(const std::string& event);
  void cut_off();

  int interval_;
  bool tested_ = true;
  std::filesystem::path file_;
  std::ofstream stream_;
  std::uintmax_t written_ = 0;  // bytes, of whole records
  BestEffort best_effort_{"--tensorboard-dir", "the training"};
};

}  // namespace sullae::train
