// NCCL against values computed here, on as many GPUs as there are: with one, a group of one rank.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "collective/nccl/nccl_communicator.h"
#include "collective/self_communicator.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/values.h"
#include "transport/store/store_rendezvous.h"
#include "transport/store/store_server.h"

namespace sullae::testing {
namespace {

int gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? std::min(count, 4) : 0;
}

constexpr std::chrono::seconds kPatience{60};
constexpr std::size_t kCounts[] = {1, 7, 4099, 300007};

void require(cudaError_t status) { ASSERT_EQ(status, cudaSuccess) << cudaGetErrorString(status); }

// Memory of the current GPU that holds `host`.
class OnGpu {
 public:
  explicit OnGpu(const std::vector<std::byte>& host) : bytes_(host.size()) {
    require(cudaMalloc(&memory_, std::max<std::size_t>(bytes_, 1)));
    require(cudaMemcpy(memory_, host.data(), bytes_, cudaMemcpyHostToDevice));
    // From pageable memory it returns before all is there, and NCCL's stream waits for no other.
    require(cudaDeviceSynchronize());
  }
  ~OnGpu() { cudaFree(memory_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  void* get() const { return memory_; }
  // After all that is on the communicator's stream.
  std::vector<std::byte> read(const DeviceCommunicator& communicator) const {
    require(cudaStreamSynchronize(static_cast<cudaStream_t>(communicator.stream())));
    std::vector<std::byte> host(bytes_);
    require(cudaMemcpy(host.data(), memory_, bytes_, cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  std::size_t bytes_;
  void* memory_ = nullptr;
};

enum class Kind { flat, hierarchical };

class Nccl : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (gpus() == 0) GTEST_SKIP() << "NO GPU HERE: NCCL is compiled, but not tested";
  }

  // A rank a GPU, each in a thread.
  static void run(const std::function<void(DeviceCommunicator&)>& body) {
    const auto address = StoreAddress::parse("unix:" + unique_mark());
    const StoreServer server(address);
    const int size = gpus();
    std::vector<std::string> errors(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          require(cudaSetDevice(rank));
          Store store(address, {kPatience, "the test's patience"});
          StoreRendezvous rendezvous(store, rank, {kPatience, "test"});
          std::vector<int> ranks(static_cast<std::size_t>(size));
          std::iota(ranks.begin(), ranks.end(), 0);
          const nccl::Options options{.group = {.name = "test", .ranks = ranks, .index = rank},
                                      .device = rank,
                                      .timeout = {kPatience, "test"},
                                      .rendezvous_timeout = {kPatience, "test"}};
          const auto communicator =
              GetParam() == Kind::flat
                  ? nccl::make(rendezvous, options)
                  : nccl::make_hierarchical(rendezvous, options,
                                            {.name = "local", .ranks = ranks, .index = rank},
                                            std::make_unique<SelfCommunicator>());
          body(*communicator);
        } catch (const Error& error) {
          errors[static_cast<std::size_t>(rank)] = error.what();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& error : errors) EXPECT_EQ(error, "");
  }
};
INSTANTIATE_TEST_SUITE_P(Gpus, Nccl, ::testing::Values(Kind::flat, Kind::hierarchical),
                         [](const auto& kind) {
                           return kind.param == Kind::flat ? "flat" : "hierarchical";
                         });

double reduced(int size, std::size_t index, DataType type, ReduceOp op) {
  std::vector<double> values;
  for (int rank = 0; rank < size; ++rank) values.push_back(value_at(rank, index, type));
  return expected(values, type, op);
}

TEST_P(Nccl, AllreduceOfEveryTypeAndOperation) {
  run([](DeviceCommunicator& communicator) {
    for (const DataType type : kAllTypes) {
      if (type == DataType::int16) continue;  // NCCL knows none
      for (const ReduceOp op : kAllOps) {
        if (type == DataType::boolean && op == ReduceOp::average) continue;
        for (const std::size_t count : kCounts) {
          const OnGpu values(make_values(communicator.rank(), count, type));
          communicator.allreduce(values.get(), values.get(), count, type, op);
          const auto out = values.read(communicator);
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_NEAR(load(out, i, type), reduced(communicator.size(), i, type, op), 1e-2)
                << name(op) << " of " << name(type) << ", element " << i << " of " << count;
          }
        }
      }
    }
  });
}

TEST_P(Nccl, GathersScattersAndBroadcastsUnequalParts) {
  run([](DeviceCommunicator& communicator) {
    const int size = communicator.size();
    const int rank = communicator.rank();
    constexpr DataType kType = DataType::int32;
    std::vector<std::size_t> counts(static_cast<std::size_t>(size));
    std::iota(counts.begin(), counts.end(), std::size_t{100});
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    const std::size_t own = counts[static_cast<std::size_t>(rank)];

    const OnGpu part(make_values(rank, own, kType));
    const OnGpu all(std::vector<std::byte>(total * 4));
    communicator.allgather(part.get(), all.get(), counts, kType);
    const auto gathered = all.read(communicator);
    std::size_t at = 0;
    for (int r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < counts[static_cast<std::size_t>(r)]; ++i, ++at)
        ASSERT_EQ(load(gathered, at, kType), value_at(r, i, kType));
    }

    const OnGpu whole(make_values(rank, total, kType));
    const OnGpu mine(std::vector<std::byte>(own * 4));
    communicator.reducescatter(whole.get(), mine.get(), counts, kType, ReduceOp::sum);
    const auto scattered = mine.read(communicator);
    const std::size_t first =
        std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
    for (std::size_t i = 0; i < own; ++i)
      ASSERT_EQ(load(scattered, i, kType), reduced(size, first + i, kType, ReduceOp::sum));

    const OnGpu from_last(make_values(rank, 1000, kType));
    communicator.broadcast(from_last.get(), 1000, kType, size - 1);
    const auto broadcast = from_last.read(communicator);
    for (std::size_t i = 0; i < 1000; ++i)
      ASSERT_EQ(load(broadcast, i, kType), value_at(size - 1, i, kType));

    const std::vector<std::size_t> equal(static_cast<std::size_t>(size), 50);
    const OnGpu sends(make_values(rank, 50 * static_cast<std::size_t>(size), kType));
    const OnGpu receives(std::vector<std::byte>(200 * static_cast<std::size_t>(size)));
    communicator.alltoall(sends.get(), equal, receives.get(), equal, kType);
    const auto arrived = receives.read(communicator);
    for (int r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < 50; ++i) {
        ASSERT_EQ(load(arrived, static_cast<std::size_t>(r) * 50 + i, kType),
                  value_at(r, static_cast<std::size_t>(rank) * 50 + i, kType));
      }
    }
  });
}

TEST_P(Nccl, RefusesWhatItCannotReduce) {
  run([](DeviceCommunicator& communicator) {
    const OnGpu values(std::vector<std::byte>(16));
    EXPECT_THROW(
        communicator.allreduce(values.get(), values.get(), 4, DataType::float32, ReduceOp::adasum),
        InputError);
    EXPECT_THROW(
        communicator.allreduce(values.get(), values.get(), 4, DataType::boolean, ReduceOp::average),
        InputError);
    EXPECT_THROW(
        communicator.allreduce(values.get(), values.get(), 4, DataType::int16, ReduceOp::sum),
        InputError);
  });
}

TEST(NcclWithoutGpus, IsSaidPlainly) { EXPECT_EQ(nccl::identity_of(10000), ""); }

}  // namespace
}  // namespace sullae::testing
