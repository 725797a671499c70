// How messages end that cannot arrive.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "sullae/adapter.h"
#include "sullae/communicator.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

class MessageFailures : public ::testing::TestWithParam<std::string> {
 protected:
  RanksOptions options(int size, std::chrono::milliseconds timeout = std::chrono::seconds{20}) {
    return {.size = size, .transport = GetParam(), .timeout = timeout};
  }
};

INSTANTIATE_TEST_SUITE_P(OverEveryTransport, MessageFailures, ::testing::Values("shm", "ucx"),
                         [](const auto& test) { return test.param; });

TEST_P(MessageFailures, ARankThatDoesNotSendEndsTheWaitWithItsName) {
  const auto errors = run_ranks_catching(options(2, std::chrono::seconds{1}), [](World& world) {
    int value = 0;
    if (world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds{4});
      return;
    }
    EXPECT_EQ(error_of([&] { world.receive(&value, 1, DataType::int32, 1, 7); }),
              "receive: rank 0 waited for rank 1 (tag 7), which did not send within 1 s "
              "(the world's timeout)");
    // The world is of no further use, and says why.
    world.send(&value, 1, DataType::int32, 1);
  });
  EXPECT_TRUE(contains(errors[0], "rank 0 waited for rank 1 (tag 7)")) << errors[0];
}

TEST_P(MessageFailures, ARankThatDoesNotReceiveEndsTheWaitForALargeMessage) {
  const auto errors = run_ranks_catching(options(2, std::chrono::seconds{1}), [](World& world) {
    std::vector<float> values(100000);
    if (world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds{4});
      return;
    }
    const Handle handle = world.send_async(values.data(), values.size(), DataType::float32, 1, 7);
    handle.wait();
  });
  EXPECT_TRUE(contains(errors[0],
                       "send: rank 0 waited for rank 1 (tag 7), which did not receive it within "
                       "1 s (the world's timeout)"))
      << errors[0];
}

TEST_P(MessageFailures, WhatWasSentBeforeARankLeftArrives) {
  run_ranks(options(2), [](World& world) {
    std::vector<float> values(100000, 2.0F);
    int value = 5;
    if (world.rank() == 1) {
      world.send(&value, 1, DataType::int32, 0);
      const Handle handle = world.send_async(values.data(), values.size(), DataType::float32, 0, 1);
      world.leave();
      handle.wait();
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{300});
    std::vector<float> received(values.size());
    world.receive(received.data(), received.size(), DataType::float32, 1, 1);
    EXPECT_EQ(received, values);
    EXPECT_EQ(world.receive(&value, 1, DataType::int32, kAnySource), 1);
    EXPECT_EQ(value, 5);
  });
}

TEST_P(MessageFailures, ARankThatLeftIsNamed) {
  for (const int from : {1, kAnySource}) {
    const auto errors = run_ranks_catching(options(2), [&](World& world) {
      if (world.rank() == 1) return;
      int value = 0;
      world.receive(&value, 1, DataType::int32, from);
    });
    EXPECT_EQ(errors[1], "");
    EXPECT_TRUE(contains(errors[0], "rank 1")) << errors[0];
    EXPECT_TRUE(contains(errors[0], "left")) << errors[0];
  }
}

// Nothing was sent to it before, so that its memory is looked for when it is gone.
TEST(MessagesInMemory, ARankThatLeftBeforeItWasReachedIsNamed) {
  std::promise<void> left;
  const auto errors = run_ranks_catching({.size = 2, .transport = "shm"}, [&](World& world) {
    if (world.rank() == 1) {
      world.leave();
      left.set_value();
      return;
    }
    left.get_future().wait();
    const int value = 1;
    world.send(&value, 1, DataType::int32, 1);
  });
  EXPECT_EQ(errors[1], "");
  EXPECT_TRUE(contains(errors[0], "rank 1")) << errors[0];
  EXPECT_TRUE(contains(errors[0], "before it was reached")) << errors[0];
  EXPECT_TRUE(contains(errors[0], "left the world")) << errors[0];
}

// Those that wait for somebody else hear of it, too.
TEST_P(MessageFailures, AFailureElsewhereEndsTheWait) {
  const auto errors = run_ranks_catching(options(3), [](World& world) {
    int value = 0;
    if (world.rank() == 1) {
      AdapterView(world)
          .submit([](Communicator&) { throw std::runtime_error("no more memory"); })
          .wait();
    } else {
      world.receive(&value, 1, DataType::int32, world.rank() == 0 ? 2 : kAnySource);
    }
  });
  EXPECT_EQ(errors[1], "no more memory");
  for (const int rank : {0, 2}) {
    EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "no more memory"))
        << errors[static_cast<std::size_t>(rank)];
  }
}

TEST(MessageMistakes, AreRefused) {
  run_ranks({.size = 2}, [](World& world) {
    int value = 0;
    EXPECT_EQ(error_of([&] { world.send(&value, 1, DataType::int32, 2); }),
              "send to rank 2: expected a rank between 0 and 1");
    EXPECT_EQ(error_of([&] { world.receive(&value, 1, DataType::int32, -2); }),
              "receive from rank -2: expected a rank between 0 and 1, or kAnySource");
    EXPECT_EQ(error_of([&] { world.send_async(&value, 1, DataType::int32, 1, -3); }),
              "send to rank 1 with tag -3: expected at least 0");
    EXPECT_EQ(error_of([&] { world.receive_async(nullptr, 4, DataType::int32, 1); }),
              "receive from rank 1: a null pointer for 4 elements");
    EXPECT_EQ(
        error_of([&] { world.send(&value, (std::size_t{1} << 61) + 1, DataType::float64, 1); }),
        "send to rank 1: 2305843009213693953 of float64 are more than any memory");
    EXPECT_THROW(world.send(&value, 1, DataType::int32, kAnySource), InputError);
    EXPECT_THROW(Handle().source(), Error);
    EXPECT_THROW(world.barrier_async().source(), Error);
    world.barrier();
  });
}

TEST(MessagesAfterLeaving, EndWithAnError) {
  run_ranks({.size = 2}, [](World& world) {
    int value = 0;
    const Handle handle = world.receive_async(&value, 1, DataType::int32, 1 - world.rank(), 3);
    std::promise<std::string> told;
    handle.then([&](std::exception_ptr error) {
      told.set_value(error_of([&] { std::rethrow_exception(error); }));
    });
    world.barrier();
    world.leave();
    const std::string expected = "receive: rank " + std::to_string(world.rank()) +
                                 " left the world before the message with tag 3 came";
    EXPECT_EQ(told.get_future().get(), expected);
    EXPECT_EQ(error_of([&] { handle.wait(); }), expected);
    EXPECT_TRUE(contains(error_of([&] { world.send(&value, 1, DataType::int32, 0); }),
                         "this rank has left the world"));
  });
}

// A receive that one rank still had when it left is nobody else's failure.
TEST(MessagesAfterLeaving, DoNotEndTheWorldOfOthers) {
  run_ranks({.size = 3}, [](World& world) {
    int value = 0;
    const auto others = world.process_set({1, 2});
    const Handle standing = world.receive_async(&value, 1, DataType::int32, kAnySource, 9);
    world.barrier();
    if (world.rank() == 0) {
      world.leave();
      EXPECT_THROW(standing.wait(), Error);
      return;
    }
    for (int i = 0; i < 200; ++i) {
      const int other = 3 - world.rank();
      int received = -1;
      world.send(&i, 1, DataType::int32, other);
      world.receive(&received, 1, DataType::int32, other);
      ASSERT_EQ(received, i);
    }
    others->barrier();  // then the standing receive may end: nobody is left who could send
  });
}

// What a sender has given up is not read from memory that it may have changed since.
TEST(MessagesAfterLeaving, AreNotReadFromTheSendersMemory) {
  run_ranks({.size = 2}, [](World& world) {
    const auto set = world.process_set({0, 1});
    std::vector<float> values(300000, 1.0F);
    if (world.rank() == 0) {
      const Handle handle = set->send_async(values.data(), values.size(), DataType::float32, 1, 2);
      set->leave();  // waits a while for it, in vain
      EXPECT_EQ(error_of([&] { handle.wait(); }),
                "send: rank 0 left the world before the message with tag 2 was received");
      values.assign(values.size(), 2.0F);
      world.send(values.data(), 1, DataType::float32, 1, 3);
    } else {
      // The offer, and what took it back, come before this.
      world.receive(values.data(), 1, DataType::float32, 0, 3);
      const Handle handle =
          set->receive_async(values.data(), values.size(), DataType::float32, 0, 2);
      world.barrier();
      EXPECT_FALSE(handle.done());
      EXPECT_EQ(values[1], 1.0F);
      return;
    }
    world.barrier();
  });
}

// Nor where its inbox is full, so that no packet can say so.
TEST(MessagesAfterLeaving, AreNotReadFromTheSendersMemoryThoughNobodyCouldBeTold) {
  constexpr std::size_t kMoreThanThereIsRoomFor = 200;
  std::promise<void> given_up;
  run_ranks({.size = 2}, [&](World& world) {
    const auto set = world.process_set({0, 1});
    std::vector<float> values(300000, 1.0F);
    std::vector<std::int32_t> numbers(kMoreThanThereIsRoomFor);
    if (world.rank() == 0) {
      const Handle handle = set->send_async(values.data(), values.size(), DataType::float32, 1, 2);
      std::vector<Handle> others;
      for (const std::int32_t& number : numbers)
        others.push_back(world.send_async(&number, 1, DataType::int32, 1, 3));
      set->leave();
      EXPECT_EQ(error_of([&] { handle.wait(); }),
                "send: rank 0 left the world before the message with tag 2 was received");
      values.assign(values.size(), 2.0F);
      given_up.set_value();
      for (Handle& other : others) other.wait();
    } else {
      given_up.get_future().wait();
      const std::string error =
          error_of([&] { set->receive(values.data(), values.size(), DataType::float32, 0, 2); });
      // Whichever is heard of first.
      EXPECT_TRUE(contains(error, "rank 0 gave up its message to rank 1 with tag 2") ||
                  contains(error, "rank 0 left the group") ||
                  contains(error, "rank 0 has left the process set"))
          << error;
      for (std::int32_t& number : numbers) world.receive(&number, 1, DataType::int32, 0, 3);
    }
    world.barrier();
  });
}

TEST(MessagesAfterLeaving, ALeavingCallbackIsToldThatItCannot) {
  run_ranks({.size = 2}, [](World& world) {
    const int other = 1 - world.rank();
    int value = -1;
    std::promise<std::string> told;
    world.receive_async(&value, 1, DataType::int32, other).then([&](std::exception_ptr) {
      told.set_value(error_of([&] { world.leave(); }));
    });
    world.barrier();
    const int own = world.rank();
    world.send(&own, 1, DataType::int32, other);
    const std::string error = told.get_future().get();
    // Where the message was there already, the callback ran in this thread.
    EXPECT_TRUE(error == "nothing was thrown" || contains(error, "of which a callback has one"))
        << error;
  });
}

// A large message for a process set that its receiver has left, though not the world.
TEST(MessagesAfterLeaving, AreNotWaitedForByTheirSender) {
  run_ranks({.size = 2}, [](World& world) {
    const auto set = world.process_set({0, 1});
    if (world.rank() == 1) set->leave();
    world.barrier();
    std::vector<float> values(10000);
    if (world.rank() == 0) {
      EXPECT_EQ(error_of([&] { set->send(values.data(), values.size(), DataType::float32, 1, 2); }),
                "send: rank 1 left the group before it had received the message of rank 0 with "
                "tag 2");
      world.send(values.data(), 1, DataType::float32, 1);
    } else {
      world.receive(values.data(), 1, DataType::float32, 0);
    }
    world.barrier();
  });
}

TEST(Callbacks, MaySendAndReceiveThemselves) {
  run_ranks({.size = 2}, [](World& world) {
    const int other = 1 - world.rank();
    std::vector<float> first(20000);
    std::vector<float> values(20000, static_cast<float>(world.rank()));
    std::promise<void> ended;
    const Handle sent = world.send_async(values.data(), values.size(), DataType::float32, other, 0);
    Handle answer;
    int value = -1;
    world.receive_async(first.data(), first.size(), DataType::float32, other, 0)
        .then([&](std::exception_ptr) {
          const int own = world.rank();
          world.send(&own, 1, DataType::int32, other, 1);
          ended.set_value();
        });
    world.receive(&value, 1, DataType::int32, other, 1);
    EXPECT_EQ(value, other);
    sent.wait();
    ended.get_future().wait();
    EXPECT_EQ(first[19999], static_cast<float>(other));
  });
}

}  // namespace
}  // namespace sullae::testing
