#include "collective/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/half.h"
#include "sullae/error.h"
#include "support/values.h"

namespace sullae::testing {
namespace {

// Around the block of 1024 elements and the vectors' widths.
constexpr std::size_t kCounts[] = {0, 1, 7, 8, 15, 16, 17, 1023, 1024, 1025, 4099};

TEST(ReductionKernels, EverySetGivesTheExpectedValues) {
  for (const auto* set : reduction::available_kernel_sets()) {
    for (const DataType type : kAllTypes) {
      for (const ReduceOp op : kAllOps) {
        if (type == DataType::boolean && op == ReduceOp::average) continue;
        for (const std::size_t count : kCounts) {
          for (int ranks = 1; ranks <= 5; ++ranks) {
            std::vector<std::vector<std::byte>> buffers;
            std::vector<const void*> inputs;
            for (int rank = 0; rank < ranks; ++rank)
              buffers.push_back(make_values(rank, count, type));
            for (auto& buffer : buffers) inputs.push_back(buffer.data());
            std::vector<std::byte> fresh(count * element_size(type));
            // One output in place, one elsewhere.
            void* outputs[2] = {buffers.back().data(), fresh.data()};
            set->kernels[static_cast<std::size_t>(type)](
                {inputs.data(), inputs.size(), outputs, 2, count, op, ranks});
            EXPECT_EQ(buffers.back(), fresh);
            for (std::size_t i = 0; i < count; ++i) {
              std::vector<double> values;
              for (int rank = 0; rank < ranks; ++rank) values.push_back(value_at(rank, i, type));
              ASSERT_EQ(load(fresh, i, type), expected(values, type, op))
                  << set->name << ' ' << name(type) << ' ' << name(op) << " element " << i << " of "
                  << count;
            }
          }
        }
      }
    }
  }
}

TEST(ReductionKernels, IntegersWrapAround) {
  for (const auto* set : reduction::available_kernel_sets()) {
    std::int32_t a = std::numeric_limits<std::int32_t>::max();
    std::int32_t b = 1;
    std::int32_t out = 0;
    const void* inputs[] = {&a, &b};
    void* outputs[] = {&out};
    set->kernels[static_cast<std::size_t>(DataType::int32)](
        {inputs, 2, outputs, 1, 1, ReduceOp::sum, 2});
    EXPECT_EQ(out, std::numeric_limits<std::int32_t>::min()) << set->name;
  }
}

// All 65536 values of each 16-bit type through each set: loaded, "reduced" alone, and stored, they
// must come back.
TEST(ReductionKernels, SixteenBitValuesSurvive) {
  for (const auto* set : reduction::available_kernel_sets()) {
    for (const DataType type : {DataType::float16, DataType::bfloat16}) {
      std::vector<std::uint16_t> in(65536);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
      std::vector<std::uint16_t> out(in.size());
      const void* inputs[] = {in.data()};
      void* outputs[] = {out.data()};
      set->kernels[static_cast<std::size_t>(type)](
          {inputs, 1, outputs, 1, in.size(), ReduceOp::sum, 1});
      for (std::size_t i = 0; i < in.size(); ++i) {
        const float value =
            type == DataType::float16 ? float16_to_float(in[i]) : bfloat16_to_float(in[i]);
        const float back =
            type == DataType::float16 ? float16_to_float(out[i]) : bfloat16_to_float(out[i]);
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(back)) << set->name << ' ' << i;
        } else {
          ASSERT_EQ(in[i], out[i]) << set->name << ' ' << name(type) << ' ' << i;
        }
      }
    }
  }
}

TEST(ReductionKernels, Float16RoundsToNearestEven) {
  EXPECT_EQ(float_to_float16(1.0F + 0x1p-11F),
            float_to_float16(1.0F));  // a tie goes to the even neighbour
  EXPECT_EQ(float_to_float16(1.0F + 0x3p-11F),
            float_to_float16(1.0F + 0x1p-9F));    // and up where that one is even
  EXPECT_EQ(float_to_float16(65520.0F), 0x7c00);  // beyond the largest: infinity
  EXPECT_EQ(float_to_float16(0x1p-24F), 1);       // the smallest subnormal
  EXPECT_EQ(float_to_float16(0x1p-26F), 0);
}

// Before they are added, in float32: the sum is more than float16 holds.
TEST(ReductionKernels, SixteenBitInputsAreWeighed) {
  for (const auto* set : reduction::available_kernel_sets()) {
    for (const DataType type : {DataType::float16, DataType::bfloat16}) {
      for (const std::size_t count : kCounts) {
        std::vector<std::byte> a(count * 2);
        std::vector<std::byte> b(count * 2);
        for (std::size_t i = 0; i < count; ++i) {
          store(a, i, 16384, type);
          store(b, i, 32768, type);
        }
        const void* const inputs[] = {a.data(), b.data()};
        void* const outputs[] = {a.data()};
        const int weights[] = {4, 1};
        set->kernels[static_cast<std::size_t>(type)](
            {inputs, 2, outputs, 1, count, ReduceOp::average, 4, weights});
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(load(a, i, type), 24576) << set->name << ' ' << name(type) << ' ' << i;
      }
    }
  }
}

TEST(ReductionKernels, TheAverageOfBooleansIsRefused) {
  EXPECT_THROW(reduction::check_supported(DataType::boolean, ReduceOp::average), InputError);
}

// Whichever rank has it, in whatever place of a vector.
TEST(ReductionKernels, WhatIsNotANumberStaysNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto* set : reduction::available_kernel_sets()) {
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::sum}) {
      for (std::size_t odd = 0; odd < 3; ++odd) {
        std::vector<std::vector<double>> doubles(3, std::vector<double>(37, 1.0));
        std::vector<std::vector<float>> floats(3, std::vector<float>(37, 1.0F));
        doubles[odd][odd * 11] = nan;
        floats[odd][odd * 11] = static_cast<float>(nan);
        const auto run = [&](auto& values, DataType type) {
          std::vector<const void*> inputs;
          for (auto& one : values) inputs.push_back(one.data());
          auto out = values[0];
          void* output = out.data();
          set->kernels[static_cast<std::size_t>(type)](
              {inputs.data(), inputs.size(), &output, 1, out.size(), op, 3});
          for (std::size_t i = 0; i < out.size(); ++i)
            EXPECT_EQ(std::isnan(out[i]), i == odd * 11) << set->name << ' ' << name(op);
        };
        run(doubles, DataType::float64);
        run(floats, DataType::float32);
      }
    }
  }
}

}  // namespace
}  // namespace sullae::testing
