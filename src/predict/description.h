// What a run predicts: all that what it writes depends on.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "predict/options.h"
#include "serve/model/config.h"
#include "sullae/data/dataset.h"
#include "train/find_model.h"

namespace sullae::predict {

/// Equal for runs that write the same: the model's checksum, the data's files, the options. Reads the model's file.
nlohmann::json describe_run(const PredictOptions& options, const train::FoundModel& model,
                            const serve::ModelConfig& config, const data::Dataset& set);

/// A file of the data that both runs have, and that is not the same; empty where there is none.
std::string changed_file(const nlohmann::json& now, const nlohmann::json& before);

/// Where two runs differ, for people: of the data's files the first that does.
std::string difference(const nlohmann::json& one, const nlohmann::json& other);

}  // namespace sullae::predict
