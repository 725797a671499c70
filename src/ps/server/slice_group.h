// The group of an optimizer's workers: slices of dense parameters.
#pragma once

#include "ps/server/group.h"
#include "ps/server/shard.h"

namespace sullae::ps {

class SliceGroup final : public Group {
 public:
  SliceGroup(const nlohmann::json& said, const ServerOptions& options, Replies replies);

  std::vector<std::span<std::byte>> arrays() override;

 private:
  struct Slice {
    Shard shard;
    Clocks clocks;
  };

  nlohmann::json shape() const override;
  Clocks* clocks_of(std::uint32_t item) override;
  std::vector<std::pair<std::uint32_t, Clocks*>> all_clocks() override;
  bool needs_values(std::uint32_t item) const override;
  bool push(const Message& message) override;
  void apply_round(std::uint32_t item, float scale) override;
  void give(zmq::message_t& to, const Header& header) override;
  bool answer_own(Message& message) override;
  nlohmann::json numbers() const override;
  void restore_numbers(const nlohmann::json& numbers) override;

  void first(const Message& message, Shard& shard);
  void put_state(Message& message, Shard& shard);

  std::map<std::uint32_t, Slice> slices_;
};

}  // namespace sullae::ps
