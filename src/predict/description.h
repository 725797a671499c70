// What a run predicts: all that what it writes depends on.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "predict/options.h"
#include "serve/model/config.h"
#include "sullae/data/dataset.h"
#include "train/find_model.h"

namespace sullae::predict {

/// Equal for runs that write the same: the model's checksum, the data's files, the options. Reads
/// the model's file.
nlohmann::json describe_run(const PredictOptions& options, const train::FoundModel& model,
                            const serve::ModelConfig& config, const data::Dataset& set);

/// Its data: files with their sizes and versions.
nlohmann::json describe_data(const std::vector<std::filesystem::path>& paths);

/// A file of a run's data that is another one by now; empty where there is none.
std::string changed_file(const std::vector<std::filesystem::path>& data, const nlohmann::json& run);

/// Where two runs differ, for people: of the data's files the first that does.
std::string difference(const nlohmann::json& one, const nlohmann::json& other);

}  // namespace sullae::predict
