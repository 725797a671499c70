// A worker's side of an optimizer on servers: slices of dense parameters.
#pragma once

#include <memory>
#include <vector>

#include "ps/client/client.h"
#include "ps/placement.h"
#include "ps/rule.h"

namespace sullae::ps {

class SliceClient final : public Client {
 public:
  /// Greets the servers. Throws InputError where one refuses, TimeoutError where one does not
  /// answer.
  SliceClient(ClientOptions options, std::vector<Slice> slices, const Rule& rule);

  const std::vector<Slice>& slices() const { return slices_; }
  /// Of a slice, range after range: what push_pull() sends and receives.
  std::span<float> values(std::size_t slice) {
    zmq::message_t& values = states_[slice].values;
    return {static_cast<float*>(values.data()), values.size() / sizeof(float)};
  }
  std::vector<float>& gradient(std::size_t slice) { return *states_[slice].gradient; }
  /// By range: whether there is a gradient.
  std::vector<std::uint8_t>& present(std::size_t slice) { return states_[slice].present; }

  /// The first worker's values become those of servers that have none; then all receive the
  /// servers'.
  void start();
  /// Sends all gradients and returns with the values to go on with. Throws TimeoutError, Error.
  void push_pull(double learning_rate) { push_all(learning_rate); }
  /// Sends that of a slice, for which push_pull() only waits. Up to there it must not change, and
  /// nothing else is asked: that throws InputError.
  void push_ahead(std::size_t slice, double learning_rate) {
    Client::push_ahead(static_cast<std::uint32_t>(slice), learning_rate);
  }
  bool has_pushed(std::size_t slice) const {
    return Client::has_pushed(static_cast<std::uint32_t>(slice));
  }
  /// Receives the servers' values as they are.
  void pull() { pull_all(); }

  /// The rule's state of a slice, as pack() gives it: what pull_state() receives and put_state()
  /// sends.
  std::vector<std::byte>& state(std::size_t slice) { return states_[slice].state; }
  void pull_state() { ask_all(Request::state, "the optimizer's state"); }
  /// To be called by worker 0, while nobody pushes.
  void put_state() { ask_all(Request::store, "the optimizer's state to be stored"); }

 private:
  struct SliceState {
    zmq::message_t values;  // as they came
    std::shared_ptr<std::vector<float>> gradient;
    std::vector<std::uint8_t> present;
    std::vector<std::byte> state;
  };

  nlohmann::json description(std::span<const std::uint32_t> items) const override;
  void send_first_values(const Header& header) override;
  void send_push(const Header& header, Attempt attempt) override;
  void send_request(const Header& header) override;
  void take(std::uint32_t item, Request request, std::vector<zmq::message_t>& parts) override;

  std::vector<Slice> slices_;
  Rule rule_;
  std::vector<SliceState> states_;
};

}  // namespace sullae::ps
