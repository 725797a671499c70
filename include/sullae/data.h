// Readers of published data set formats. Every reader takes plain and gzip-compressed files alike
// (a missing "name" is looked for as "name.gz"), and throws InputError that says which file, where
// in it, what was found and what was expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sullae/error.h"

namespace sullae::data {

/// Labelled grey images of one size.
struct ImageSet {
  std::size_t rows = 0;
  std::size_t columns = 0;
  /// [count, rows, columns], 0 is background.
  std::vector<std::uint8_t> pixels;
  /// [count]
  std::vector<std::uint8_t> labels;

  std::size_t size() const { return labels.size(); }
};

/// Reads a pair of IDX files (Y. LeCun, C. Cortes, C. Burges: the MNIST database): unsigned bytes
/// with three dimensions and with one. `classes` bounds the labels.
ImageSet read_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                  int classes);

/// The four files of MNIST in `directory`.
struct Mnist {
  ImageSet train;
  ImageSet test;
};
Mnist read_mnist(const std::filesystem::path& directory);

/// Digits that are drawn, not recorded: strokes under a random affine distortion, thickness and
/// noise. The same `seed` gives the same images, 28 × 28 as MNIST's.
ImageSet draw_digits(std::size_t count, std::uint64_t seed);

/// A text and its class.
struct LabelledText {
  std::string text;
  int label = 0;
};

/// Reads tab-separated values "id<TAB>document<TAB>label" with a header line, in UTF-8 (the layout
/// of the Naver sentiment movie corpus). Labels run from 0 to classes - 1; a document may be empty.
std::vector<LabelledText> read_labelled_tsv(const std::filesystem::path& file, int classes);

/// The words of a text, cut at white space.
std::vector<std::string_view> split_words(std::string_view text);

/// Numbers for words: 0 is padding, 1 any word that is not known, the others by falling frequency
/// in the texts that it was made from (words of equal frequency in the order of their bytes).
class Vocabulary {
 public:
  static constexpr std::int64_t kPadding = 0;
  static constexpr std::int64_t kUnknown = 1;

  /// Of words that occur at least `min_count` times.
  static Vocabulary build(const std::vector<LabelledText>& texts, std::size_t min_count = 1);

  /// Numbers, padding and unknown included.
  std::size_t size() const { return numbers_.size() + 2; }
  std::int64_t number_of(std::string_view word) const;
  /// The words of `text` as numbers; a text without words becomes one unknown word, since models
  /// need one.
  std::vector<std::int64_t> encode(std::string_view text, std::size_t max_words) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>{}(word);
    }
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> numbers_;
};

}  // namespace sullae::data
