#include "online/job.h"

#include <nlohmann/json.hpp>

#include "sullae/torch/checkpoint.h"

namespace sullae::train {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AddedSample, input, label)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FineTuneOptions, epochs, batch_size, lr, replay, test_samples,
                                   seed)
}  // namespace sullae::train

namespace sullae::online {

using nlohmann::json;

// MessagePack, since texts need not be UTF-8.
std::string to_text(const Job& job) {
  CheckpointMetadata description;
  train::add_description(description, job.description);
  const auto& data = job.data;
  const json message = {{"description", description.texts},
                        {"training", job.training},
                        {"added", job.added},
                        {"first_changed", job.first_changed},
                        {"data", data.data.string()},
                        {"test_data", data.test_data.string()},
                        {"format", data.format},
                        {"text_columns", data.text_columns},
                        {"label_column", data.label_column},
                        {"success_file", data.success_file},
                        {"seed", data.seed},
                        {"skip_damaged", data.skip_damaged}};
  std::string text;
  json::to_msgpack(message, text);
  return text;
}

Job job_from(const std::string& text) {
  const json message = json::from_msgpack(text);
  CheckpointMetadata description;
  message.at("description").get_to(description.texts);
  Job job{.description = train::description_of(description, "the job"),
          .data = {},
          .training = message.at("training").get<train::FineTuneOptions>(),
          .added = message.at("added").get<std::vector<train::AddedSample>>(),
          .first_changed = message.at("first_changed").get<std::size_t>()};
  job.data.data = message.at("data").get<std::string>();
  job.data.test_data = message.at("test_data").get<std::string>();
  message.at("format").get_to(job.data.format);
  message.at("text_columns").get_to(job.data.text_columns);
  message.at("label_column").get_to(job.data.label_column);
  message.at("success_file").get_to(job.data.success_file);
  message.at("seed").get_to(job.data.seed);
  message.at("skip_damaged").get_to(job.data.skip_damaged);
  return job;
}

}  // namespace sullae::online
