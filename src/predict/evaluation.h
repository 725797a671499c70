// Predicted classes beside the true ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
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
  nlohmann::json to_json() const;
  /// The opposite, of the same classes. Throws InputError.
  void add(const nlohmann::json& counts);
  nlohmann::json counts() const { return counts_; }

 private:
  std::size_t number_of(const std::string& name) const;

  std::vector<std::string> classes_;
  std::unordered_map<std::string, std::size_t> numbers_;  // by name
  std::vector<std::int64_t> counts_;                      // [truth, predicted]
};

/// A page on its own.
void write_page(const std::filesystem::path& file, const Confusion& confusion,
                const std::string& title);

}  // namespace sullae::predict
