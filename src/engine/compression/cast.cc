#include "engine/compression/cast.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "base/half.h"
#include "sullae/error.h"

namespace sullae::engine {
namespace {

template <DataType Type, float (*Widen)(std::uint16_t), std::uint16_t (*Narrow)(float)>
class Cast final : public Compression {
 public:
  std::string name() const override { return std::string(sullae::name(Type)); }

  void allreduce(Communicator& ranks, float* values, std::size_t count, ReduceOp op) override {
    if (narrow_.size() < count) narrow_.resize(count);
    for (std::size_t i = 0; i < count; ++i) narrow_[i] = Narrow(values[i]);
    ranks.allreduce(narrow_.data(), narrow_.data(), count, Type, op);
    for (std::size_t i = 0; i < count; ++i) values[i] = Widen(narrow_[i]);
  }

 private:
  std::vector<std::uint16_t> narrow_;
};

void refuse_parameter(std::string_view name, std::string_view parameter) {
  if (!parameter.empty())
    throw InputError(
        fmt::format("compression {}:{}: {} takes no parameter", name, parameter, name));
}

}  // namespace

std::unique_ptr<Compression> make_float16_compression(std::string_view parameter) {
  refuse_parameter("float16", parameter);
  return std::make_unique<Cast<DataType::float16, float16_to_float, float_to_float16>>();
}

std::unique_ptr<Compression> make_bfloat16_compression(std::string_view parameter) {
  refuse_parameter("bfloat16", parameter);
  return std::make_unique<Cast<DataType::bfloat16, bfloat16_to_float, float_to_bfloat16>>();
}

}  // namespace sullae::engine
