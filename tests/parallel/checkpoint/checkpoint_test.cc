// What ranks save in parts is what one process saves, and goes to any number of ranks.
#include <fmt/format.h>

#include "parallel/checkpoint/saved_net.h"
#include "torch/checkpoint_file.h"
#include "torch/zip_directory.h"

namespace sullae::testing {
namespace {

void expect_right_checksums(const std::filesystem::path& file) {
  CheckedFile checked(file);
  const auto read = [&](std::uint64_t position, void* into, std::size_t bytes) {
    ASSERT_EQ(checked.read(position, into, bytes), bytes);
  };
  for (const ZipMember& member : zip_members(read, checked.size())) {
    std::string content(member.bytes, '\0');
    read(member.begin, content.data(), content.size());
    if (member.name.find("/data/") == std::string::npos) continue;  // perhaps compressed
    for (const std::uint64_t at : member.checksums) {
      std::uint32_t crc = 0;
      read(at, &crc, sizeof crc);
      EXPECT_EQ(crc, extend_crc(0, content.data(), content.size())) << member.name;
    }
  }
}

TEST_F(ShardedCheckpoint, IsWhatOneProcessSaves) {
  for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    for (const auto& [name, make] : kMakers) {
      SCOPED_TRACE(name + c10::toString(type));
      save(3, make, type, /*also_whole=*/true);
      EXPECT_EQ(files().size(), 2U);
      expect_right_checksums(file_);
      const auto found_type = type == torch::kBFloat16 ? torch::kFloat32 : type;
      Found found(file_, found_type, make);
      Found expected(whole_, found_type, make);
      expect_same(found, expected, "");
      EXPECT_EQ(found.metadata.numbers, expected.metadata.numbers);
      EXPECT_EQ(found.metadata.texts, expected.metadata.texts);
      EXPECT_TRUE(torch::equal(found.metadata.tensors.at("large"), torch::arange(30'000)));
      // And to whom Sullae is unknown.
      Net net(found_type);
      torch::load(net, file_.string());
      EXPECT_TRUE(torch::equal(net->conv->weight, expected.net->conv->weight));
    }
  }
}

TEST_F(ShardedCheckpoint, GoesToAnyRanks) {
  for (const auto& [name, make] : kMakers) {
    for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
      save(4, make, type);
      const auto found_type = type == torch::kBFloat16 ? torch::kFloat32 : type;
      Found expected(file_, found_type, make);
      for (const int ranks : {1, 2, 3, 5}) {
        SCOPED_TRACE(fmt::format("{} on {} {}", name, ranks, c10::toString(type)));
        run_ranks({.size = ranks}, [&](World& world) {
          Net net(type);
          {
            const torch::NoGradGuard guard;
            for (auto& parameter : net->parameters()) parameter.fill_(9);
            net->named_buffers()["table"].fill_(9);
          }
          ShardedOptimizer optimizer(trained(net), make, {.stage = 1}, world);
          const auto metadata = load_checkpoint(file_, *net, optimizer);
          EXPECT_EQ(metadata.texts.at("words"), "a\nb");
          EXPECT_EQ(metadata.tensors.at("large").numel(), 30'000);
          for (const auto& item : net->named_parameters())
            EXPECT_TRUE(
                torch::equal(item.value(), expected.net->named_parameters()[item.key()].to(type)))
                << item.key();
          EXPECT_TRUE(torch::equal(net->named_buffers()["table"], torch::arange(20'000)));
          save_checkpoint(again_, *net, optimizer, {.metadata = metadata});
          run_steps(net, optimizer, type, 1, world);  // and trains on
        });
        Found again(again_, found_type, make);
        expect_same(again, expected, "again");
      }
    }
  }
}

// One of those that one process has saved.
TEST_F(ShardedCheckpoint, MayBeOneProcesss) {
  const auto& make = kMakers.at("Adam");
  save(2, make, torch::kFloat32, /*also_whole=*/true);
  Found expected(whole_, torch::kFloat32, make);
  run_ranks({.size = 3}, [&](World& world) {
    Net net;
    ShardedOptimizer optimizer(trained(net), make, {}, world);
    load_checkpoint(whole_, *net, optimizer);
    save_checkpoint(again_, *net, optimizer);
  });
  Found again(again_, torch::kFloat32, make);
  expect_same(again, expected, "again");
}

// Whose tensors were parts of larger ones, which files hold with their gaps.
TEST_F(ShardedCheckpoint, MayHaveGaps) {
  {
    Net net;
    const torch::NoGradGuard guard;
    for (auto* linear : {&net->one, &net->two}) {
      auto& weight = (*linear)->weight;
      const auto wider = torch::full({weight.size(0), weight.size(1) + 3}, 7.F);
      const auto part = wider.narrow(1, 1, weight.size(1));
      part.copy_(weight);
      weight.set_data(part);
    }
    const auto optimizer = kMakers.at("Adam")(trained(net));
    save_checkpoint(file_, *net, optimizer.get());
  }
  const Net expected;
  run_ranks({.size = 2}, [&](World& world) {
    Net net;
    const torch::NoGradGuard guard;
    for (auto& parameter : net->parameters()) parameter.fill_(9);
    ShardedOptimizer optimizer(trained(net), kMakers.at("Adam"), {.stage = 1}, world);
    load_checkpoint(file_, *net, optimizer);
    for (const auto& item : net->named_parameters())
      EXPECT_TRUE(torch::equal(item.value(), expected->named_parameters()[item.key()]))
          << item.key();
  });
}

}  // namespace
}  // namespace sullae::testing
