// Usage: bench_gradients_mpi resnet50|small: one MPI_Allreduce a tensor.
#include <mpi.h>

#include "shapes.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto sizes = bench::sizes_named(argc > 1 ? argv[1] : "resnet50");
  std::vector<std::vector<float>> tensors;
  for (auto size : sizes) tensors.emplace_back(size);
  bench::run(
      "mpi", rank, 30, [] { MPI_Barrier(MPI_COMM_WORLD); },
      [&] {
        for (auto& tensor : tensors) {
          MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(tensor.size()), MPI_FLOAT,
                        MPI_SUM, MPI_COMM_WORLD);
        }
      });
  MPI_Finalize();
}
