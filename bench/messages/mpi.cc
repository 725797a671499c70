#include <mpi.h>

#include "measure.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank < 2) {
    bench::run({.rank = rank,
                .send =
                    [](const void* data, std::size_t bytes, int to) {
                      MPI_Send(data, static_cast<int>(bytes), MPI_BYTE, to, 0, MPI_COMM_WORLD);
                    },
                .receive =
                    [](void* data, std::size_t bytes, int from) {
                      MPI_Recv(data, static_cast<int>(bytes), MPI_BYTE, from, 0, MPI_COMM_WORLD,
                               MPI_STATUS_IGNORE);
                    }},
               argc, argv);
  }
  MPI_Finalize();
}
