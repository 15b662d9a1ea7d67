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
  using Init = Call<int*, char***, int, int*>;
  Waits<Init> init_thread{find<Init>("MPI_Init_thread")};
  Waits<Call<>> finalize{find<Call<>>("MPI_Finalize")};
  Call<Object, int*>* comm_rank = find<Call<Object, int*>>("MPI_Comm_rank");
  Call<Object, int*>* comm_size = find<Call<Object, int*>>("MPI_Comm_size");
  Call<Object, Object>* set_errhandler = find<Call<Object, Object>>("MPI_Comm_set_errhandler");
  Call<int, char*, int*>* error_string = find<Call<int, char*, int*>>("MPI_Error_string");
  using Request = void*;
  Call<Request*, int*, void*>* test = find<Call<Request*, int*, void*>>("MPI_Test");
  using StartReduce = Call<const void*, void*, int, Object, Object, Object, Request*>;
  StartReduce* start_all_reduce = find<StartReduce>("MPI_Iallreduce");
  using Reduce = Call<const void*, void*, int, Object, Object, Object>;
  Waits<Reduce> all_reduce{find<Reduce>("MPI_Allreduce")};
  Waits<Reduce> reduce_scatter{find<Reduce>("MPI_Reduce_scatter_block")};
  using Exchange = Call<const void*, int, Object, void*, int, Object, Object>;
  Waits<Exchange> all_gather{find<Exchange>("MPI_Allgather")};
  Waits<Exchange> all_to_all{find<Exchange>("MPI_Alltoall")};
  using Rooted = Call<const void*, int, Object, void*, int, Object, int, Object>;
  Waits<Rooted> gather{find<Rooted>("MPI_Gather")};
  Waits<Rooted> scatter{find<Rooted>("MPI_Scatter")};
  using Broadcast = Call<void*, int, Object, int, Object>;
  Waits<Broadcast> broadcast{find<Broadcast>("MPI_Bcast")};
  using Send = Call<const void*, int, Object, int, int, Object, Request*>;
  Send* send = find<Send>("MPI_Isend");
  using BlockingSend = Call<const void*, int, Object, int, int, Object>;
  Waits<BlockingSend> send_now{find<BlockingSend>("MPI_Send")};
  struct Status {
    int source, tag, error, cancelled;
    size_t count;  // bytes
  };
  using Probe = Call<int, int, Object, int*, Status*>;
  Probe* probe = find<Probe>("MPI_Iprobe");
  using Receive = Call<void*, int, Object, int, int, Object, Status*>;
  Waits<Receive> receive{find<Receive>("MPI_Recv")};

  using Split = Call<Object, int, int, Object*>;
  Waits<Split> split{find<Split>("MPI_Comm_split")};

  Call<Object, Object*>* group_of = find<Call<Object, Object*>>("MPI_Comm_group");
  using Include = Call<Object, int, const int*, Object*>;
  Include* include = find<Include>("MPI_Group_incl");
  using CreateGroup = Call<Object, Object, int, Object*>;
  Waits<CreateGroup> create_group{find<CreateGroup>("MPI_Comm_create_group")};

  Object world = object("ompi_mpi_comm_world");
  Object errors_return = object("ompi_mpi_errors_return");
  Object object(const char* name) const { return find<char>(name); }
};

}  // namespace mt::dist
