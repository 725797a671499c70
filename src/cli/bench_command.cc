#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/environment.h"
#include "base/rounded.h"
#include "cli/commands.h"
#include "cli/validators.h"
#include "launch/environment.h"
#include "launch/launcher.h"
#include "launch/remote_shell.h"
#include "transport/transports.h"
#include "world/collective_benchmark.h"

namespace sullae::cli {
namespace {

constexpr std::size_t kDefaultFactor = 4;

// "4", "16K", "1M", "2G": powers of 1024.
std::size_t parse_size(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.ends_with('B')) unit.remove_suffix(1);
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (error != std::errc{} || shift < 0 || value > std::size_t{1} << (50 - shift)) {
    throw InputError(
        fmt::format("--sizes: '{}' is no size: expected bytes, as 4, 16K, 1M or 2G", text));
  }
  return value << shift;
}

// Empty ones, too.
std::vector<std::string_view> all_parts(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// "4,1K,1M", or "4:64M" for 4, 16, 64 and so on, or "4:64M:2" with another factor.
std::vector<std::size_t> parse_sizes(std::string_view text) {
  std::vector<std::size_t> sizes;
  for (const auto part : all_parts(text, ',')) {
    const auto range = all_parts(part, ':');
    const std::size_t first = parse_size(range[0]);
    const std::size_t last = range.size() > 1 ? parse_size(range[1]) : first;
    const std::size_t factor = range.size() > 2 ? parse_size(range[2]) : kDefaultFactor;
    if (range.size() > 3 || factor < 2 || (range.size() > 1 && first == 0)) {
      throw InputError(
          fmt::format("--sizes: '{}': expected SIZE or FROM:TO[:FACTOR], from 1 byte and by a "
                      "factor of 2 or more",
                      part));
    }
    if (last < first) throw InputError(fmt::format("--sizes: '{}': FROM is above TO", part));
    for (std::size_t size = first; size <= last; size *= factor) {
      sizes.push_back(size);
      if (size == 0) break;
    }
  }
  return sizes;
}

class BenchCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand(
        "bench", "Measure collectives: latency, algorithm and bus bandwidth at each size");
    app->add_option("COLLECTIVE", options_.collective, "What to measure")
        ->required()
        ->check(CLI::IsMember(benchmark_collectives()));
    app->add_option("-n,--np", ranks_, "Ranks to start on this host (also -np)")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N");
    app->add_option("--sizes", sizes_,
                    "Bytes: a list, or FROM:TO[:FACTOR] (by default a factor of 4)")
        ->capture_default_str()
        ->type_name("SIZES");
    app->add_option("--type", type_, "Element type")
        ->check(CLI::IsMember(type_names()))
        ->capture_default_str();
    app->add_option("--transport", transport_, "What moves the bytes")
        ->check(CLI::IsMember(transport_names()))
        ->type_name("NAME");
    app->add_option("--iterations", options_.iterations,
                    "Operations a measurement; by default as many as take some 50 ms")
        ->check(positive_integer())
        ->type_name("N");
    app->add_flag("--in-bucket", options_.in_bucket,
                  "Buffers in the segment that the host's ranks share, where gradients live");
    app->add_flag("--async", options_.async,
                  "Through the engine, as named asynchronous operations");
    app->add_flag("--json", json_, "Print JSON instead of a table");
    app->footer(
        "As a rank of `sullae run`, mpirun or srun it measures among those ranks:\n"
        "  sullae run -H node1:4,node2:4 sullae bench allreduce --sizes 1M:256M\n"
        "Times are of the slowest rank, the median of five measurements. Bandwidths are in GB/s "
        "(10^9 bytes); bus bandwidth is\n"
        "what each link carries (for allreduce 2(P-1)/P x bytes / time), as nccl-tests count it.");
    return app;
  }

  int run() override {
    options_.sizes =
        options_.collective == "barrier" ? std::vector<std::size_t>{0} : parse_sizes(sizes_);
    options_.type = type_of(type_);
    WorldOptions world = detect_world(process_environment());
    const bool in_a_job = world.size > 1 || process_environment()("SULLAE_RANK");
    if (!in_a_job && ranks_ > 1) return start_ranks();
    world.transport = transport_;
    measure(create_job_world(world));
    return 0;
  }

 private:
  static std::vector<std::string> type_names() {
    std::vector<std::string> names;
    for (const DataType type : kTypes) names.emplace_back(name(type));
    return names;
  }
  static std::vector<std::string> transport_names() {
    std::vector<std::string> names = {"auto", "shm"};
    for (const TransportKind& kind : transports()) names.push_back(kind.name);
    return names;
  }
  static DataType type_of(const std::string& text) {
    for (const DataType type : kTypes) {
      if (name(type) == text) return type;
    }
    return DataType::float32;
  }

  // The same command again, as the ranks of a job.
  int start_ranks() const {
    JobOptions job;
    job.ranks = ranks_;
    job.tag_output = false;
    job.command = {own_program(), "bench", options_.collective, "--sizes", sizes_, "--type", type_};
    if (!transport_.empty()) job.command.insert(job.command.end(), {"--transport", transport_});
    if (options_.iterations > 0)
      job.command.insert(job.command.end(), {"--iterations", fmt::to_string(options_.iterations)});
    if (options_.in_bucket) job.command.emplace_back("--in-bucket");
    if (options_.async) job.command.emplace_back("--async");
    if (json_) job.command.emplace_back("--json");
    return run_job(job);
  }

  void measure(const World& world) const {
    const bool prints = world.rank() == 0;
    auto results = nlohmann::json::array();
    if (prints && !json_) print_head(world);
    run_benchmark(world, options_, [&](const BenchmarkResult& result) {
      if (!prints) return;
      results.push_back({{"bytes", result.bytes},
                         {"latency_us", rounded(result.latency_us)},
                         {"algbw_gbps", rounded(result.algbw_gbps)},
                         {"busbw_gbps", rounded(result.busbw_gbps)},
                         {"backend", result.backend}});
      if (json_) return;
      fmt::print("{:>14} {:>14.2f} {:>14.3f} {:>14.3f}\n", result.bytes, result.latency_us,
                 result.algbw_gbps, result.busbw_gbps);
      std::fflush(stdout);
    });
    if (!prints || !json_) return;
    const nlohmann::json report = {
        {"collective", options_.collective}, {"world_size", world.size()}, {"type", type_},
        {"in_bucket", options_.in_bucket},   {"async", options_.async},    {"results", results}};
    fmt::print("{}\n", report.dump(2));
  }

  void print_head(const World& world) const {
    fmt::print("{} of {}, {} on {}, {}{}{}\n\n", options_.collective, type_,
               counted(world.size(), "rank"), counted(world.cross_size(), "host"), world.backend(),
               options_.in_bucket ? ", in buckets" : "",
               options_.async ? ", through the engine" : "");
    fmt::print("{:>14} {:>14} {:>14} {:>14}\n", "bytes", "latency (us)", "algbw (GB/s)",
               "busbw (GB/s)");
  }

  static constexpr DataType kTypes[] = {DataType::float32,  DataType::float64, DataType::float16,
                                        DataType::bfloat16, DataType::int8,    DataType::int16,
                                        DataType::int32,    DataType::int64,   DataType::uint8};

  BenchmarkOptions options_;
  int ranks_ = 2;
  std::string sizes_ = "4:64M";
  std::string type_ = "float32";
  std::string transport_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace sullae::cli
