#include <mpi.h>

#include "measure.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<float> memory(bench::largest_count(argc, argv));
  bench::run({.rank = rank,
              .size = size,
              .buffer = memory.data(),
              .barrier = [] { MPI_Barrier(MPI_COMM_WORLD); },
              .allreduce =
                  [](float* data, std::size_t count) {
                    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                                  MPI_COMM_WORLD);
                  }},
             argc, argv);
  MPI_Finalize();
}
