// Models that go on learning while they are served (Sullae::serve).
#pragma once

#include <chrono>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "sullae/sullae.h"

namespace sullae {

/// A topic of Kafka whose messages are samples with labels. A message's key is the sample's:
/// another message of this key takes its place, and one without a value takes it back.
struct OnlineSource {
  /// "kafka://HOST:PORT[,…]/TOPIC"; empty for none.
  std::string topic = {};
  /// The consumer group; empty for "sullae-online-" and the model's name.
  std::string group = {};
  /// "auto", "jsonl", "csv", "tsv" or "tfrecord" (a tf.train.Example a message).
  std::string format = "auto";
  /// As of tables (data::DatasetOptions).
  std::string text_columns = {};
  std::string label_column = {};
  /// Counts and reports messages that are no samples, instead of ending with an error.
  bool skip_damaged = false;
};

struct OnlineOptions {
  /// The model repository that is served.
  std::filesystem::path repository;
  /// The models to look after; empty: all that have samples.
  std::vector<std::string> models = {};
  /// Between looks for samples and calls.
  std::chrono::milliseconds poll{1000};
  /// Trains what has changed now, of the source too, and returns.
  bool once = false;
  /// Of the only one of `models`.
  OnlineSource source = {};
};

/// Trains the models of a repository further whenever enough samples have been corrected, and
/// publishes a new version where it is better: what `sullae online` does. Each model's config.toml
/// says when and how ([online]). Runs until `stop` of rank 0 is requested, or with `once` until
/// what has changed is trained; a round that has begun is not cut short. Collective: all ranks of
/// `world` call it. Throws InputError for a folder or a model that is not there or that another
/// process looks after; what goes wrong in a round is recorded and logged instead, and thrown only
/// where there are several ranks, or, with `once`, at the end, on rank 0: Error.
void learn_online(const OnlineOptions& options, const World& world = sullae::world(),
                  const std::stop_token& stop = {});

}  // namespace sullae
