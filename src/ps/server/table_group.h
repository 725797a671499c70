// The group of a table's workers.
#pragma once

#include "ps/server/group.h"
#include "ps/server/table.h"

namespace sullae::ps {

class TableGroup final : public Group {
 public:
  TableGroup(const nlohmann::json& said, const ServerOptions& options, Replies replies);

  std::vector<std::span<std::byte>> arrays() override { return table_.arrays(); }
  void restored() override { table_.restored(); }

 private:
  nlohmann::json shape() const override;
  Clocks* clocks_of(std::uint32_t item) override { return item == id_ ? &clocks_ : nullptr; }
  std::vector<std::pair<std::uint32_t, Clocks*>> all_clocks() override { return {{id_, &clocks_}}; }
  bool needs_values(std::uint32_t) const override { return false; }
  bool push(const Message& message) override;
  void apply_round(std::uint32_t, float scale) override { table_.apply_sum(scale); }
  void give(zmq::message_t& to, const Header& header) override { replies_.send(to, header); }
  bool answer_own(Message& message) override;
  nlohmann::json numbers() const override;
  void restore_numbers(const nlohmann::json& numbers) override;

  void look_up(Message& message);
  void give_rows(Message& message);
  bool put_rows(const Message& message);

  std::uint32_t id_;
  TableShape shape_;
  Table table_;
  Clocks clocks_;
};

}  // namespace sullae::ps
