#include <mpi.h>

#include "measure.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  std::vector<MPI_Comm> made;
  MPI_Comm whole = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &whole);
  bench::run(
      rank, size, [] { MPI_Barrier(MPI_COMM_WORLD); },
      [&](const std::vector<int>& members) {
        MPI_Group group = MPI_GROUP_NULL;
        MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &group);
        MPI_Comm set = MPI_COMM_NULL;
        MPI_Comm_create(MPI_COMM_WORLD, group, &set);
        if (set != MPI_COMM_NULL) made.push_back(set);
        MPI_Group_free(&group);
      },
      [&] { MPI_Barrier(whole); });
  for (MPI_Comm& set : made) MPI_Comm_free(&set);
  MPI_Comm_free(&whole);
  MPI_Group_free(&world);
  MPI_Finalize();
}
