// A step on a table of embeddings: rows are looked up, and their gradients sent.
//   bench_ps_table ROWS DIMENSION TOUCHED SERVERS STEPS
// The servers are processes (`sullae ps`), and messages go over loopback. The table has ROWS rows
// from the beginning, of which each step touches TOUCHED, drawn anew; the rule is Adagrad. Prints
//   "seconds": a step's, the median
//   "bytes_a_step": as the loopback device counted them, of all steps together
//   "bytes_needed": of the touched rows: each number and its row, there and back
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "ps/client/table_client.h"
#include "server_process.h"

namespace {

using Clock = std::chrono::steady_clock;
using sullae::ps::TableClient;

std::int64_t loopback_bytes() {
  std::int64_t bytes = 0;
  std::ifstream("/sys/class/net/lo/statistics/rx_bytes") >> bytes;
  return bytes;
}

void fill(TableClient& table, std::uint64_t rows) {
  constexpr std::uint64_t kAtOnce = 1 << 17;
  for (std::uint64_t from = 0; from < rows; from += kAtOnce) {
    sullae::ps::Rows part;
    for (std::uint64_t id = from; id < std::min(rows, from + kAtOnce); ++id) part.ids.push_back(id);
    part.data.resize(part.ids.size() * table.width(), 0.5F);
    table.put_rows(part);
  }
}

std::vector<std::uint64_t> draw(std::mt19937_64& random, std::uint64_t rows, std::size_t count) {
  std::unordered_set<std::uint64_t> ids;
  while (ids.size() < count) ids.insert(random() % rows);
  return {ids.begin(), ids.end()};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr, "usage: bench_ps_table ROWS DIMENSION TOUCHED SERVERS STEPS\n");
    return 2;
  }
  const std::uint64_t rows = std::stoull(argv[1]);
  const std::int64_t dimension = std::stoll(argv[2]);
  const std::size_t touched = std::stoul(argv[3]);
  const int steps = std::stoi(argv[5]);
  std::vector<std::unique_ptr<ServerProcess>> servers;
  std::vector<std::string> endpoints;
  for (int i = 0; i < std::stoi(argv[4]); ++i) {
    servers.push_back(std::make_unique<ServerProcess>(1, 0));
    endpoints.push_back(servers.back()->endpoint());
  }
  TableClient table({.servers = endpoints}, {.dimension = dimension},
                    {.kind = sullae::ps::Rule::Kind::adagrad});
  fill(table, rows);
  std::mt19937_64 random(1);
  std::vector<float> values(touched * table.dimension());
  std::vector<double> seconds;
  const std::int64_t before = loopback_bytes();
  for (int step = 0; step < steps; ++step) {
    const auto ids = draw(random, rows, touched);
    const auto begin = Clock::now();
    table.look_up(ids, values.data());
    table.push(ids, values.data(), 0.1);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  const double bytes = static_cast<double>(loopback_bytes() - before) / steps;
  std::ranges::nth_element(seconds, seconds.begin() + steps / 2);
  const auto row = sizeof(std::uint64_t) + table.dimension() * sizeof(float);
  fmt::print("{{\"seconds\": {:.6f}, \"bytes_a_step\": {:.0f}, \"bytes_needed\": {}}}\n",
             seconds[static_cast<std::size_t>(steps / 2)], bytes, 2 * touched * row);
}
