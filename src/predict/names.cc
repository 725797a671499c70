#include "predict/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sullae/error.h"

namespace sullae::predict {
namespace {

bool is_among(const std::string& name, const std::vector<std::string>& names) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

void check_names(const PredictOptions& options, const std::vector<std::string>& outputs,
                 const std::vector<std::string>& own) {
  const auto is_written = [&](const std::string& name) {
    return is_among(name, outputs) && (options.outputs.empty() || is_among(name, options.outputs));
  };
  for (const auto& name : own) {
    if (is_written(name))
      throw InputError(
          fmt::format("--outputs: the model has an output '{}', as is called what tells samples "
                      "apart: name others",
                      name));
  }
  for (auto column = options.columns.begin(); column != options.columns.end(); ++column) {
    if (is_among(*column, own) || is_written(*column))
      throw InputError(fmt::format(
          "--columns: '{}' is what a prediction has by that name: leave it out of --columns, or of "
          "--outputs",
          *column));
    if (std::find(options.columns.begin(), column, *column) != column)
      throw InputError(fmt::format("--columns: '{}' is given twice", *column));
  }
  for (const auto& output : options.outputs) {
    if (!outputs.empty() && !is_among(output, outputs))
      throw InputError(fmt::format("--outputs: the model has no output '{}': expected some of {}",
                                   output, fmt::join(outputs, ", ")));
  }
}

}  // namespace sullae::predict
