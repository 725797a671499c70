#include "train/models/key_value_cache.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "torch/compat/attention.h"
#include "train/models/dot_product.h"

namespace sullae::train {
namespace {

constexpr std::int64_t kLeastRoom = 16;

// One place to `places` keys and values, [places, size] each.
void attend(const float* query, const float* keys, const float* values, std::int64_t places,
            std::int64_t size, float* scores, float* out) {
  const float scale = 1 / std::sqrt(static_cast<float>(size));
  float most = -INFINITY;
  for (std::int64_t place = 0; place < places; ++place) {
    const float* key = keys + place * size;
    scores[place] = scale * dot_product(query, key, size);
    most = std::max(most, scores[place]);
  }
  float total = 0;
  for (std::int64_t place = 0; place < places; ++place)
    total += scores[place] = std::exp(scores[place] - most);
  std::fill_n(out, size, 0.0F);
  for (std::int64_t place = 0; place < places; ++place) {
    const float* value = values + place * size;
    const float part = scores[place] / total;
    for (std::int64_t i = 0; i < size; ++i) out[i] += part * value[i];
  }
}

// What a step of most texts is. Libtorch's calls would take longer than what they compute.
void attend_one(const float* qkv, std::int64_t heads, std::int64_t size,
                const KeyValueCache::Layer& layer, std::int64_t place, float* out) {
  const std::int64_t room = layer.keys.size(1);
  std::vector<float> scores(static_cast<std::size_t>(place + 1));
  for (std::int64_t head = 0; head < heads; ++head) {
    const float* query = qkv + head * size;
    float* keys = layer.keys.data_ptr<float>() + head * room * size;
    float* values = layer.values.data_ptr<float>() + head * room * size;
    std::copy_n(query + heads * size, size, keys + place * size);
    std::copy_n(query + 2 * heads * size, size, values + place * size);
    attend(query, keys, values, place + 1, size, scores.data(), out + head * size);
  }
}

torch::Tensor with_room(const torch::Tensor& old, std::int64_t places, std::int64_t room,
                        const torch::Tensor& qkv) {
  auto fresh = torch::empty({qkv.size(2), room, qkv.size(3)}, qkv.options());
  if (places > 0) fresh.narrow(1, 0, places).copy_(old.narrow(1, 0, places));
  return fresh;
}

}  // namespace

std::size_t KeyValueCache::bytes() const {
  std::size_t bytes = 0;
  for (const Layer& layer : layers_) bytes += layer.keys.nbytes() + layer.values.nbytes();
  return bytes;
}

void KeyValueCache::clear() {
  layers_.clear();
  size_ = 0;
}

// Room doubles, so that a text is copied as often as its length has digits.
const KeyValueCache::Layer& KeyValueCache::next_layer(std::int64_t more, const torch::Tensor& qkv) {
  if (next_ == layers_.size()) layers_.emplace_back();
  Layer& layer = layers_[next_++];
  if (!layer.keys.defined() || layer.keys.size(1) < size_ + more) {
    const std::int64_t room = std::max({kLeastRoom, 2 * size_, size_ + more});
    layer.keys = with_room(layer.keys, size_, room, qkv);
    layer.values = with_room(layer.values, size_, room, qkv);
  }
  return layer;
}

torch::Tensor attention_of_growing(const torch::Tensor& qkv,
                                   const std::vector<GrowingText>& texts) {
  const std::int64_t heads = qkv.size(2);
  const std::int64_t size = qkv.size(3);
  const auto out = torch::empty({qkv.size(0), heads, size}, qkv.options());
  const bool is_plain = qkv.is_cpu() && qkv.scalar_type() == torch::kFloat32 && qkv.is_contiguous();
  for (const auto& [first, count, cache] : texts) {
    const std::int64_t before = cache->size();
    const auto& layer = cache->next_layer(count, qkv);
    if (count == 1 && is_plain) {
      attend_one(qkv.data_ptr<float>() + first * 3 * heads * size, heads, size, layer, before,
                 out.data_ptr<float>() + first * heads * size);
      continue;
    }
    // [3, heads, places, size of a head]
    const auto parts = qkv.narrow(0, first, count).permute({1, 2, 0, 3});
    layer.keys.narrow(1, before, count).copy_(parts[1]);
    layer.values.narrow(1, before, count).copy_(parts[2]);
    const std::int64_t places = before + count;
    torch::Tensor may_look;
    if (count > 1 && before > 0)
      may_look = torch::ones({count, places}, qkv.options().dtype(torch::kBool)).tril(before);
    const auto seen = attention(parts[0].unsqueeze(0), layer.keys.narrow(1, 0, places).unsqueeze(0),
                                layer.values.narrow(1, 0, places).unsqueeze(0), may_look,
                                /*causal=*/count > 1 && before == 0);
    out.narrow(0, first, count).copy_(seen[0].transpose(0, 1));
  }
  return out.flatten(1);
}

}  // namespace sullae::train
