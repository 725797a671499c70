// A worker's side of a table on servers.
#pragma once

#include <functional>
#include <vector>

#include "ps/client/client.h"
#include "ps/rows.h"
#include "ps/rule.h"

namespace sullae::ps {

class TableClient final : public Client {
 public:
  /// Greets the servers. Throws InputError where one refuses, TimeoutError where one does not
  /// answer.
  TableClient(ClientOptions options, const TableShape& shape, const Rule& rule);

  std::size_t dimension() const { return static_cast<std::size_t>(shape_.dimension); }
  /// Floats of a row in Rows::data.
  std::size_t width() const { return width_; }

  /// The values of these rows, one behind the other.
  void look_up(std::span<const std::uint64_t> ids, float* to);
  /// Sends the gradients of these rows, each of which is named once, and returns when this worker
  /// may go on. They may be none, and are a step all the same.
  void push(std::span<const std::uint64_t> ids, const float* gradients, double learning_rate);
  /// After rest().
  void pull() { pull_all(); }

  /// Hands out all rows that there are, a part at a time, as those of one moment where nobody
  /// pushes. Returns how many steps the table has behind it.
  std::int64_t pull_rows(const std::function<void(const Rows&)>& take);
  /// To be called by one worker, while nobody pushes: these, whose numbers are other ones than
  /// before, beside those that are there.
  void put_rows(const Rows& rows);
  /// Of all rows. It is then as one that has so many steps behind it.
  void clear(std::int64_t steps);

 private:
  // What goes to a server, or comes from there.
  struct Part {
    std::vector<std::uint64_t> ids;
    std::vector<std::size_t> places;  // of them in what was asked for
    std::vector<float> gradient;
    Rows rows;
    std::int64_t first = 0;  // of the rows that are asked for
    std::int64_t steps = 0;
  };

  nlohmann::json description(std::span<const std::uint32_t> items) const override;
  void send_push(const Header& header, Attempt attempt) override;
  void send_request(const Header& header) override;
  void take(std::uint32_t item, Request request, std::vector<zmq::message_t>& parts) override;
  void lost(std::size_t server) override;
  void divide(std::span<const std::uint64_t> ids);
  Items with_ids() const;
  void check_size(std::size_t rows, std::size_t floats) const;

  TableShape shape_;
  Rule rule_;
  std::size_t width_;
  std::vector<Part> parts_;  // by server
  float* to_ = nullptr;
  bool has_given_ = false;  // rows, or gradients of some
};

}  // namespace sullae::ps
