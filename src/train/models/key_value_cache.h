// What attention keeps of a text that goes on (the "KV cache"), so that each piece is computed
// once.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sullae::train {

/// The keys and values of one text's places, of all layers. Made empty, filled by a LanguageModel,
/// and of that model alone. Used by one thread at a time.
class KeyValueCache {
 public:
  /// Places that are in it.
  std::int64_t size() const { return size_; }
  /// Of memory, with room for more places.
  std::size_t bytes() const;
  /// Forgets the text, and gives the memory back.
  void clear();

  /// Of a layer, with room behind: only [heads, places, size of a head] of them count.
  struct Layer {
    torch::Tensor keys;  ///< [heads, room, size of a head]
    torch::Tensor values;
  };

  // For models. What is not commit()ted was never there, so that a step that fails can be taken
  // again.

  /// Before the first layer of a step.
  void begin() { next_ = 0; }
  /// The next layer, with room behind size() for so many `more` places of such a `qkv`, [rows, 3,
  /// heads, size of a head].
  const Layer& next_layer(std::int64_t more, const torch::Tensor& qkv);
  /// So many `more` places are in all layers.
  void commit(std::int64_t more) { size_ += more; }

 private:
  std::vector<Layer> layers_;
  std::size_t next_ = 0;
  std::int64_t size_ = 0;
};

/// Pieces that follow what is in `cache` of a text: at least one.
struct NewPieces {
  std::vector<std::int64_t> pieces;
  KeyValueCache* cache;
};

/// A text among those that go on together: the rows of their new places in what is computed of all,
/// and its cache.
struct GrowingText {
  std::int64_t first = 0;
  std::int64_t count = 0;
  KeyValueCache* cache = nullptr;
};

/// Attention of each text's new places to themselves and to those before them, which are in its
/// cache (G. Yu et al., 2022: Orca's selective batching). `qkv` [rows, 3, heads, size of a head] →
/// [rows, heads × size of a head].
torch::Tensor attention_of_growing(const torch::Tensor& qkv, const std::vector<GrowingText>& texts);

}  // namespace sullae::train
