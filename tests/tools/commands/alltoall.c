/* An MPI program: everybody sends something else to everybody, so many rounds, and every value is checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kPart = 4096 };

static int value_of(int round, int from, int index) { return round * 1000003 + from * 7919 + index; }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = argc > 1 ? atoi(argv[1]) : 10;
  int* sent = malloc(sizeof(int) * kPart * (size_t)size);
  int* received = malloc(sizeof(int) * kPart * (size_t)size);
  long wrong = 0, all = 0;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < kPart * size; ++i) sent[i] = value_of(round, rank, i);
    MPI_Alltoall(sent, kPart, MPI_INT, received, kPart, MPI_INT, MPI_COMM_WORLD);
    for (int peer = 0; peer < size; ++peer) {
      for (int i = 0; i < kPart; ++i)
        wrong += received[peer * kPart + i] != value_of(round, peer, rank * kPart + i);
    }
  }
  MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d processes, %d rounds, %ld wrong values\n", size, rounds, all);
  free(sent);
  free(received);
  MPI_Finalize();
  return 0;
}
