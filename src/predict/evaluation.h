// Predicted classes beside the true ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sullae::predict {

/// How often samples of a class were taken for which. A value; sums of several add up.
class Confusion {
 public:
  explicit Confusion(std::vector<std::string> classes);

  /// Throws InputError for a true class that the model does not know.
  void add(const std::string& truth, const std::string& predicted);

  const std::vector<std::string>& classes() const { return classes_; }
  std::int64_t count(std::size_t truth, std::size_t predicted) const;
  std::int64_t samples() const;
  /// Of all samples; 0 of none.
  double accuracy() const;

  struct OfClass {
    std::int64_t samples = 0;
    double precision = 0;
    double recall = 0;
    double f1 = 0;
  };
  OfClass of_class(std::size_t number) const;
  /// The mean of the classes' that samples have.
  double macro_f1() const;

  /// A table for a terminal.
  std::string to_text() const;
  /// "confusion" is the matrix; of many classes "confusion_counts" is what counts() gives.
  nlohmann::json to_json() const;
  /// Those that are not 0, as [truth, predicted, count]: the whole matrix of many classes is too
  /// large to be noted.
  nlohmann::json counts() const;
  /// The opposite, of the same classes. Throws InputError.
  void add(const nlohmann::json& counts);

 private:
  using Triple = std::tuple<std::size_t, std::size_t, std::int64_t>;
  void add(std::size_t truth, std::size_t predicted, std::int64_t count);
  std::size_t number_of(const std::string& name) const;

  std::vector<std::string> classes_;
  std::unordered_map<std::string, std::size_t> numbers_;                // by name
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> counts_;  // of truth and predicted
  std::vector<std::int64_t> samples_;                                   // by class
  std::vector<std::int64_t> predicted_;                                 // by class
};

/// A page on its own.
void write_page(const std::filesystem::path& file, const Confusion& confusion,
                const std::string& title);

}  // namespace sullae::predict
