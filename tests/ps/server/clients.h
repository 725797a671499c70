// Workers of servers that run in threads of the test.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "ps/client/slice_client.h"
#include "ps/client/table_client.h"
#include "support/parameter_servers.h"

namespace sullae::testing {

// One slice of three elements on the first server.
inline const std::vector<ps::Slice> kSlices{{.server = 0, .ranges = {{0, 0, 3}}}};

inline ps::ClientOptions options_of(const RunningServers& servers, int worker) {
  return {.servers = servers.endpoints(), .worker = worker, .timeout = std::chrono::seconds{30}};
}

inline std::vector<float> values_of(ps::SliceClient& client) {
  const auto values = client.values(0);
  return {values.begin(), values.end()};
}

inline void push_ones(ps::SliceClient& client) {
  client.gradient(0).assign(3, 1);
  client.present(0).assign(1, 1);
  client.push_pull(1);
}

inline std::vector<float> rows_of(ps::TableClient& table, const std::vector<std::uint64_t>& ids) {
  std::vector<float> rows(ids.size() * table.dimension());
  table.look_up(ids, rows.data());
  return rows;
}

inline void push_ones(ps::TableClient& table, const std::vector<std::uint64_t>& ids) {
  const std::vector<float> ones(ids.size() * table.dimension(), 1);
  table.push(ids, ones.data(), 1);
}

inline constexpr ps::TableShape kZeros{.dimension = 2, .deviation = 0};

}  // namespace sullae::testing
