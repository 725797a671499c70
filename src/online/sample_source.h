// Samples from a topic of Kafka into a model's store.
#pragma once

#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "data/format/messages.h"
#include "kafka/address.h"
#include "kafka/consumer.h"
#include "online/example_store.h"
#include "sullae/online.h"
#include "train/description.h"

namespace sullae::online {

/// A message is a sample with its label: its key is the sample's, so that another message of this
/// key takes its place, and one without a value takes it back; without a key a sample is known by
/// its input. Offsets are committed when samples are on the disk, so that none is lost, and what
/// comes again after a crash is there already. A thread of its own reads; what is public is for one
/// other.
class SampleSource {
 public:
  enum class Until { ever, end };
  /// `model`: a folder of the repository. Throws InputError, e.g. for a model that is none of a
  /// recipe.
  SampleSource(const OnlineSource& source, const std::filesystem::path& model, Until until);
  ~SampleSource();
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;

  /// Throws what the thread has ended with.
  void check();
  /// With Until::end: whether all that is there is stored.
  bool is_drained();

 private:
  void read(const std::stop_token& stop);
  std::size_t store(std::vector<kafka::Message> messages, const std::stop_token& stop);
  void put(const ExampleChange& change, const std::stop_token& stop);
  void add(const data::DatasetPtr& set, data::Messages messages, std::vector<Example>& examples);
  Example example_of(const data::Example& sample) const;
  void forget(const kafka::Message& message, std::vector<Example>& examples);

  bool once_;
  kafka::Address topic_;
  train::ModelDescription description_;
  std::filesystem::path file_;
  std::optional<ExampleStore> examples_;
  data::DamageLog damage_;
  data::DatasetOptions reading_;
  kafka::Consumer consumer_;
  std::mutex mutex_;
  bool is_at_end_ = false;      // guarded by mutex_
  std::exception_ptr failure_;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace sullae::online
