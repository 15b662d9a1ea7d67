// mpi.h -- Open MPI, loaded when a process joins a group: the functions that collective operations need
#pragma once
#include "engine/io/required_library.h"

namespace mt::dist {

/// Open MPI's objects are identified by their address.
using Object = const void*;
inline const auto kInPlace = reinterpret_cast<const void*>(intptr_t(1));  // MPI_IN_PLACE

/// While it lives, the process waits for others inside MPI (CallNote).
struct Waiting {
  Waiting();
  ~Waiting();
};
/// A function of MPI that returns when other processes have called it too.
template <class F> struct Waits;
template <class... Parameters> struct Waits<int(Parameters...)> {
  int (*function)(Parameters...);
  int operator()(Parameters... p) const {
    const Waiting waiting;
    return function(p...);
  }
};

/// Open MPI 4 or 5 (the ABI of libmpi.so.40).
struct Mpi : RequiredLibrary {
  Mpi() : RequiredLibrary("mt.dist", "openmpi-bin", {"libmpi.so.40"}) {}

  template <class... Parameters> using Call = int(Parameters...);
  using Request = void*;
  struct Status {
    int source, tag, error, cancelled;
    size_t count;  // bytes
  };
  Waits<Call<int*, char***, int, int*>> init_thread{find("MPI_Init_thread")};
  Waits<Call<>> finalize{find("MPI_Finalize")};
  Call<Object, int*>*comm_rank = find("MPI_Comm_rank"), *comm_size = find("MPI_Comm_size");
  Call<Object, Object>* set_errhandler = find("MPI_Comm_set_errhandler");
  Call<int, char*, int*>* error_string = find("MPI_Error_string");
  Call<Request*, int*, void*>* test = find("MPI_Test");
  Call<const void*, void*, int, Object, Object, Object, Request*>* start_all_reduce =
      find("MPI_Iallreduce");
  Waits<Call<const void*, void*, int, Object, Object, Object>> all_reduce{find("MPI_Allreduce")},
      reduce_scatter{find("MPI_Reduce_scatter_block")};
  Waits<Call<const void*, int, Object, void*, int, Object, Object>> all_gather{
      find("MPI_Allgather")},
      all_to_all{find("MPI_Alltoall")};
  Waits<Call<const void*, int, Object, void*, int, Object, int, Object>> gather{find("MPI_Gather")},
      scatter{find("MPI_Scatter")};
  Waits<Call<void*, int, Object, int, Object>> broadcast{find("MPI_Bcast")};
  Call<const void*, int, Object, int, int, Object, Request*>* send = find("MPI_Isend");
  Waits<Call<const void*, int, Object, int, int, Object>> send_now{find("MPI_Send")};
  Call<int, int, Object, int*, Status*>* probe = find("MPI_Iprobe");
  Waits<Call<void*, int, Object, int, int, Object, Status*>> receive{find("MPI_Recv")};
  Waits<Call<Object, int, int, Object*>> split{find("MPI_Comm_split")};
  Call<Object, Object*>* group_of = find("MPI_Comm_group");
  Call<Object, int, const int*, Object*>* include = find("MPI_Group_incl");
  Waits<Call<Object, Object, int, Object*>> create_group{find("MPI_Comm_create_group")};
  Object world = object("ompi_mpi_comm_world"), errors_return = object("ompi_mpi_errors_return");
  Object object(const char* name) const { return find(name).at; }
};

}  // namespace mt::dist
