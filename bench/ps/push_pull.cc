// A step of workers of parameter servers without a model, beside ZeroMQ that carries as much.
//   bench_ps ours|zeromq MEGABYTES WORKERS SERVERS STEPS
//   bench_ps slow STALENESS WORKERS SECONDS
// Workers are threads of this process with a ZeroMQ context each, servers processes (`sullae ps`),
// and messages go over loopback. "ours" sends gradients, has servers update with SGD, and receives
// values; "zeromq" sends as many bytes in messages of the same size to threads of this process and
// receives as many, which nobody reads. Where SULLAE_PS_SERVERS lists servers, ours are those.
// "slow" has workers that rest 10 ms a step, and one that rests five times as long.
// Prints
//   "steps_a_second": of all workers together, of "slow"; else
//   "seconds": a step's, the median
//   "gigabytes_a_second": sent and received by all workers
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "base/environment.h"
#include "ps/client/slice_client.h"
#include "ps/endpoints.h"
#include "server_process.h"

namespace {

using Clock = std::chrono::steady_clock;
using sullae::ps::Slice;

struct Sizes {
  std::size_t elements = 0;
  int workers = 1;
  int servers = 1;
  int steps = 1;
};

template <class Step>
std::vector<double> timed(int steps, const Step& step) {
  std::vector<double> seconds;
  constexpr int kFirst = 3;
  for (int i = 0; i < kFirst + steps; ++i) {
    const auto start = Clock::now();
    step();
    if (i >= kFirst) seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

// One tensor is nearly all.
std::vector<Slice> slices_of(const Sizes& sizes) {
  return sullae::ps::place({sizes.elements - sizes.elements / 10, sizes.elements / 10},
                           sizes.servers);
}

double slow(int staleness, int workers, int seconds) {
  const ServerProcess server(workers, staleness);
  const auto end = Clock::now() + std::chrono::seconds{seconds};
  std::atomic<int> steps = 0;
  {
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&, worker] {
        sullae::ps::SliceClient client({.servers = {server.endpoint()}, .worker = worker},
                                       sullae::ps::place({100}, 1), {});
        client.start();
        const std::chrono::milliseconds rest{worker == 0 ? 50 : 10};
        while (Clock::now() < end) {
          std::this_thread::sleep_for(rest);
          client.push_pull(0.1);
          ++steps;
        }
      });
    }
  }
  return static_cast<double>(steps) / seconds;
}

std::vector<double> ours(const Sizes& sizes) {
  std::vector<std::unique_ptr<ServerProcess>> servers;
  std::vector<std::string> endpoints = sullae::ps::find_endpoints(sullae::process_environment());
  for (int i = static_cast<int>(endpoints.size()); i < sizes.servers; ++i) {
    servers.push_back(std::make_unique<ServerProcess>(sizes.workers, -1));
    endpoints.push_back(servers.back()->endpoint());
  }
  std::vector<double> seconds;
  std::vector<std::jthread> workers;
  for (int worker = 0; worker < sizes.workers; ++worker) {
    workers.emplace_back([&, worker] {
      sullae::ps::SliceClient client({.servers = endpoints, .worker = worker}, slices_of(sizes),
                                     {});
      for (std::size_t i = 0; i < client.slices().size(); ++i)
        std::ranges::fill(client.present(i), std::uint8_t{1});
      client.start();
      const auto all = timed(sizes.steps, [&] { client.push_pull(0.1); });
      if (worker == 0) seconds = all;
    });
  }
  workers.clear();
  return seconds;
}

std::vector<double> zeromq(const Sizes& sizes) {
  const auto slices = slices_of(sizes);
  std::vector<std::jthread> servers;
  std::vector<std::string> endpoints;
  for (int i = 0; i < sizes.servers; ++i) {
    auto context = std::make_shared<zmq::context_t>(1);
    auto socket = std::make_shared<zmq::socket_t>(*context, zmq::socket_type::router);
    socket->set(zmq::sockopt::rcvhwm, 0);
    socket->set(zmq::sockopt::sndhwm, 0);
    socket->set(zmq::sockopt::linger, 0);
    socket->bind("tcp://127.0.0.1:*");
    endpoints.push_back(socket->get(zmq::sockopt::last_endpoint));
    servers.emplace_back([context, socket](const std::stop_token& stop) {
      zmq::pollitem_t item{socket->handle(), 0, ZMQ_POLLIN, 0};
      while (!stop.stop_requested()) {
        zmq::poll(&item, 1, std::chrono::milliseconds{20});
        zmq::message_t from;
        while (socket->recv(from, zmq::recv_flags::dontwait)) {
          zmq::message_t part;
          static_cast<void>(socket->recv(part));
          socket->send(from, zmq::send_flags::sndmore);
          socket->send(zmq::message_t(part.size()), zmq::send_flags::none);
        }
      }
    });
  }
  std::vector<double> seconds;
  {
    std::vector<std::jthread> workers;
    for (int worker = 0; worker < sizes.workers; ++worker) {
      workers.emplace_back([&, worker] {
        zmq::context_t context(1);
        std::vector<zmq::socket_t> sockets;
        for (const auto& endpoint : endpoints) {
          sockets.emplace_back(context, zmq::socket_type::dealer);
          sockets.back().set(zmq::sockopt::sndhwm, 0);
          sockets.back().set(zmq::sockopt::rcvhwm, 0);
          sockets.back().connect(endpoint);
        }
        std::vector<std::vector<float>> gradients;
        for (const Slice& slice : slices) gradients.emplace_back(slice.elements());
        const auto all = timed(sizes.steps, [&] {
          for (std::size_t i = 0; i < slices.size(); ++i) {
            zmq::message_t message(
                gradients[i].data(), gradients[i].size() * sizeof(float), [](void*, void*) {},
                nullptr);
            sockets[static_cast<std::size_t>(slices[i].server)].send(message,
                                                                     zmq::send_flags::none);
          }
          for (const Slice& slice : slices) {
            zmq::message_t answer;
            static_cast<void>(sockets[static_cast<std::size_t>(slice.server)].recv(answer));
          }
        });
        if (worker == 0) seconds = all;
      });
    }
  }
  for (auto& server : servers) server.request_stop();
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5) {
    fmt::print("{{\"steps_a_second\": {:.3f}}}\n",
               slow(std::stoi(argv[2]), std::stoi(argv[3]), std::stoi(argv[4])));
    return 0;
  }
  if (argc != 6) return 2;
  const Sizes sizes{.elements = std::stoul(argv[2]) << 18,
                    .workers = std::stoi(argv[3]),
                    .servers = std::stoi(argv[4]),
                    .steps = std::stoi(argv[5])};
  auto seconds = argv[1] == std::string("ours") ? ours(sizes) : zeromq(sizes);
  const auto median = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, median);
  const double bytes = 2.0 * static_cast<double>(sizes.elements * sizeof(float)) * sizes.workers;
  fmt::print("{{\"seconds\": {:.6f}, \"gigabytes_a_second\": {:.3f}}}\n", *median,
             bytes / *median / 1e9);
  return 0;
}
