#include "train/models/key_value_cache.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "torch/compat/attention.h"

namespace sullae::train {
namespace {

constexpr std::int64_t kLeastRoom = 16;

// Sums side by side, which the compiler may not make of one by itself.
float product_of(const float* a, const float* b, std::int64_t size) {
  constexpr std::int64_t kSums = 16;
  std::array<float, kSums> sums{};
  std::int64_t i = 0;
  for (; i + kSums <= size; i += kSums) {
    for (std::int64_t j = 0; j < kSums; ++j)
      sums[static_cast<std::size_t>(j)] += a[i + j] * b[i + j];
  }
  float sum = std::accumulate(sums.begin(), sums.end(), 0.0F);
  for (; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

// One place to `places` keys and values, [places, size] each.
void attend(const float* query, const float* keys, const float* values, std::int64_t places,
            std::int64_t size, float* scores, float* out) {
  const float scale = 1 / std::sqrt(static_cast<float>(size));
  float most = -INFINITY;
  for (std::int64_t place = 0; place < places; ++place) {
    const float* key = keys + place * size;
    scores[place] = scale * product_of(query, key, size);
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

// A step of most texts: libtorch's calls would take longer than what they compute.
void attend_one(const torch::Tensor& query, const KeyValueCache::Layer& layer, std::int64_t places,
                torch::Tensor out) {
  const std::int64_t heads = query.size(0);
  const std::int64_t size = query.size(1);
  const std::int64_t room = layer.keys.size(1);
  std::vector<float> scores(static_cast<std::size_t>(places));
  for (std::int64_t head = 0; head < heads; ++head)
    attend(query.data_ptr<float>() + head * size, layer.keys.data_ptr<float>() + head * room * size,
           layer.values.data_ptr<float>() + head * room * size, places, size, scores.data(),
           out.data_ptr<float>() + head * size);
}

torch::Tensor with_room(const torch::Tensor& old, const torch::Tensor& more, std::int64_t places,
                        std::int64_t room) {
  auto fresh = torch::empty({more.size(0), room, more.size(2)}, more.options());
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

// Room doubles, so that a text is copied as often as it has digits.
const KeyValueCache::Layer& KeyValueCache::append(const torch::Tensor& keys,
                                                  const torch::Tensor& values) {
  if (next_ == layers_.size()) layers_.emplace_back();
  Layer& layer = layers_[next_++];
  const std::int64_t more = keys.size(1);
  if (!layer.keys.defined() || layer.keys.size(1) < size_ + more) {
    const std::int64_t room = std::max({kLeastRoom, 2 * size_, size_ + more});
    layer.keys = with_room(layer.keys, keys, size_, room);
    layer.values = with_room(layer.values, values, size_, room);
  }
  layer.keys.narrow(1, size_, more).copy_(keys);
  layer.values.narrow(1, size_, more).copy_(values);
  return layer;
}

torch::Tensor attention_of_growing(const torch::Tensor& qkv,
                                   const std::vector<GrowingText>& texts) {
  const auto out = torch::empty({qkv.size(0), qkv.size(2), qkv.size(3)}, qkv.options());
  const bool is_plain = qkv.is_cpu() && qkv.scalar_type() == torch::kFloat32;
  for (const auto& [first, count, cache] : texts) {
    const auto rows = qkv.narrow(0, first, count);
    // [3, heads, places, size of a head]
    const auto parts = rows.permute({1, 2, 0, 3});
    const auto& layer = cache->append(parts[1], parts[2]);
    const std::int64_t places = cache->size() + count;
    if (count == 1 && is_plain) {
      attend_one(rows[0][0], layer, places, out[first]);
      continue;
    }
    torch::Tensor may_look;
    if (count > 1 && cache->size() > 0)
      may_look =
          torch::ones({count, places}, qkv.options().dtype(torch::kBool)).tril(cache->size());
    const auto seen = attention(parts[0].unsqueeze(0), layer.keys.narrow(1, 0, places).unsqueeze(0),
                                layer.values.narrow(1, 0, places).unsqueeze(0), may_look,
                                /*causal=*/count > 1 && cache->size() == 0);
    out.narrow(0, first, count).copy_(seen[0].transpose(0, 1));
  }
  return out.flatten(1);
}

}  // namespace sullae::train
