// The ways of a large message through shared memory.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "collective/messages/messenger.h"
#include "collective/messages/shared_copy.h"
#include "collective/messages/shm_carrier.h"
#include "support/program.h"
#include "transport/store/store_rendezvous.h"
#include "transport/store/store_server.h"

namespace sullae::messages {
namespace {

using testing::unique_mark;
constexpr std::chrono::seconds kPatience{20};

// What the kernel may forbid.
struct Permissions {
  const char* name;
  bool fetch;
  bool help;
};

class LargeMessages : public ::testing::TestWithParam<Permissions> {};

TEST_P(LargeMessages, ArriveBothWaysAtOnce) {
  const auto address = StoreAddress::parse("unix:" + unique_mark());
  const StoreServer server(address);
  const Failure failure;
  const Context context{.number = 1, .members = {0, 1}, .failure = &failure};
  const auto rank = [&](int own) {
    Store store(address, {kPatience, "the test's patience"});
    StoreRendezvous rendezvous(store, own, {kPatience, "test"});
    std::vector<std::unique_ptr<Carrier>> carriers;
    carriers.push_back(make_shm_carrier(rendezvous, {.rank = own,
                                                     .ranks = {0, 1},
                                                     .may_fetch = GetParam().fetch,
                                                     .may_help = GetParam().help}));
    if (!GetParam().fetch) {
      EXPECT_FALSE(carriers[0]->can_fetch(1 - own));
    }
    Messenger messenger({.rank = own, .size = 2, .timeout = {kPatience, "test"}},
                        std::move(carriers));
    for (const std::size_t bytes : {8193UL, 100003UL, 524287UL, 524288UL, 5000011UL}) {
      std::vector<std::byte> out(bytes);
      std::vector<std::byte> expected(bytes);
      for (std::size_t i = 0; i < bytes; ++i) {
        out[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(own));
        expected[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(1 - own));
      }
      std::vector<std::byte> in(bytes);
      std::promise<void> sent;
      const auto send = std::make_shared<Operation>(Direction::send, context, 1 - own, 0,
                                                    DataType::uint8, out.data(), bytes);
      send->finished = [&](const Operation&) {
        sent.set_value();
      };
      if (messenger.start(send)) sent.set_value();
      Operation receive(Direction::receive, context, 1 - own, 0, DataType::uint8, in.data(), bytes);
      messenger.run(receive);
      sent.get_future().wait();
      EXPECT_EQ(send->error, nullptr);
      EXPECT_TRUE(in == expected) << bytes;
    }
    messenger.leave(context);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

INSTANTIATE_TEST_SUITE_P(Kernels, LargeMessages,
                         ::testing::Values(Permissions{"that_allow_all", true, true},
                                           Permissions{"that_forbid_writing", true, false},
                                           Permissions{"that_forbid_both", false, false}),
                         [](const auto& test) { return test.param.name; });

TEST(SharedCopy, GivesEachPieceOnce) {
  constexpr std::size_t kBytes = 100 * SharedCopy::kPiece + 17;
  SharedCopy copy;
  const auto turn = copy.begin();
  ASSERT_TRUE(turn);
  EXPECT_FALSE(copy.begin());
  std::vector<std::atomic<int>> claims(101);
  const auto claim_all = [&] {
    while (const auto piece = copy.claim(*turn, kBytes)) {
      EXPECT_EQ(piece->offset % SharedCopy::kPiece, 0U);
      EXPECT_EQ(piece->bytes, piece->offset == 100 * SharedCopy::kPiece ? 17 : SharedCopy::kPiece);
      ++claims[piece->offset / SharedCopy::kPiece];
    }
  };
  std::thread other(claim_all);
  claim_all();
  other.join();
  for (const auto& count : claims) EXPECT_EQ(count, 1);
  EXPECT_EQ(copy.end(), 101U);
}

// More often than there are turns.
TEST(SharedCopy, MayBeUsedForEver) {
  SharedCopy copy;
  for (int i = 0; i < (1 << 24) + 3; ++i) {
    const auto turn = copy.begin();
    ASSERT_TRUE(turn && copy.claim(*turn, 1)) << i;
    copy.end();
  }
}

TEST(SharedCopy, IsOverForGoodWhereTheSenderMayStillWrite) {
  SharedCopy copy;
  ASSERT_TRUE(copy.claim(*copy.begin(), 10));
  copy.end();
  copy.retire();
  EXPECT_FALSE(copy.begin());
}

TEST(SharedCopy, GivesNothingOfTheNextCopyToWhoComesLate) {
  SharedCopy copy;
  const auto first = copy.begin();
  EXPECT_TRUE(copy.claim(*first, 10));
  EXPECT_EQ(copy.end(), 1U);
  EXPECT_FALSE(copy.claim(*first, SharedCopy::kPiece * 5));
  const auto second = copy.begin();
  EXPECT_FALSE(copy.claim(*first, SharedCopy::kPiece * 5));
  EXPECT_TRUE(copy.claim(*second, 10));
}

}  // namespace
}  // namespace sullae::messages
