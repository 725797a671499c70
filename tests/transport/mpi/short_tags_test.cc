#include "transport/mpi/short_tags.h"

#include <gtest/gtest.h>

#include <set>

#include "support/errors.h"
#include "transport/transport.h"

namespace sullae::testing {
namespace {

// Open MPI over TCP, MPICH, Open MPI over UCX, Intel MPI, and what MPI promises.
constexpr std::array<std::uint64_t, 5> kMost = {2147483647, 268435455, 8388607, 524287, 32767};

TEST(ShortTags, AreOnesThatMpiTakesAndTellCollectivesAndStepsApart) {
  for (const std::uint64_t most : kMost) {
    for (const int ranks : {1, 2, 64}) {
      const ShortTags tags(most, ranks);
      ASSERT_GE(tags.kept(), 64U);
      // Two that follow each other, where the count begins anew, and the last of all.
      for (const std::uint64_t first :
           {std::uint64_t{0}, tags.kept() - 1, std::uint64_t{0xfffffe}}) {
        std::set<int> seen;
        std::size_t count = 0;
        for (std::uint64_t sequence = first; sequence < first + 2; ++sequence) {
          for (const std::uint64_t begin : {0, 0x4000}) {
            for (std::uint64_t step = begin; step <= begin + static_cast<std::uint64_t>(ranks);
                 ++step) {
              seen.insert(tags.of(make_tag(sequence, step)));
              ++count;
            }
          }
          for (const std::uint64_t step : {0x8000, 0x8002, 0xfff0, 0xfffe, 0xffff}) {
            seen.insert(tags.of(make_tag(sequence, step)));
            ++count;
          }
        }
        EXPECT_EQ(seen.size(), count) << most << ' ' << ranks << ' ' << first;
        EXPECT_GE(*seen.begin(), 0);
        EXPECT_LE(static_cast<std::uint64_t>(*seen.rbegin()), most);
      }
    }
  }
}

TEST(ShortTags, TooFewAreRefused) {
  EXPECT_EQ(error_of<InputError>([] { ShortTags(32767, 1000); }),
            "SULLAE_TRANSPORT=mpi: this MPI has tags up to 32767 (MPI_TAG_UB), and 1000 ranks need "
            "132096 at least: expected another MPI, or SULLAE_TRANSPORT=ucx");
}

}  // namespace
}  // namespace sullae::testing
