// dist.cpp -- mt.dist: collective operations on tensors of several processes
#include "engine/core/device.h"
#include "engine/dist/process_group.h"

#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

const Entry kDist[] = {
    {"init(timeout=nil)",
     "Joins the processes that mpirun started; without mpirun a world of one. Returns rank and "
     "size. Every other function of mt.dist does so if it is called first. timeout: how many "
     "seconds a call waits for the other processes, at first 600; then an error names the "
     "missing ones, and mt.dist cannot be used any more.",
     bind<[](std::optional<double> timeout) {
       if (timeout) dist::set_timeout(*timeout);
       return std::pair(dist::rank(), dist::size());
     }>},
    {"rank()", "The rank of this process, from 0.", bind<[] { return int64_t(dist::rank()); }>},
    {"local_rank()",
     "Which of the processes on this machine this one is, from 0. Its GPU, which 'cuda' is: that "
     "number, modulo the number of GPUs, or MTORCH_DEVICE_INDEX if it is set.",
     bind<[] { return int64_t(local_rank()); }>},
    {"size()", "How many processes there are.", bind<[] { return int64_t(dist::size()); }>},
    {"all_reduce_([x], op='sum')",
     "Each element of x, a tensor or a list, becomes the sum, mean, max or min of the processes', "
     "in place; all get the same bits. Returns x.",
     takes<OneOrMore, dist::Reduction>([](Args& a) {
       dist::all_reduce_(Arg<OneOrMore>::get(a, 1).list, dist::Reduction(a.choice(2)));
       return a.self();
     })},
    {"broadcast_([x], root=0)",
     "x, a tensor or a list, becomes what it is in process root (from 0), in place. Returns x.",
     takes<OneOrMore, int64_t>([](Args& a) {
       dist::broadcast_(Arg<OneOrMore>::get(a, 1).list, a.integer(2));
       return a.self();
     })},
    {"all_gather(x)",
     "The tensors of all processes, of equal shapes: a list, that of rank r at r + 1.",
     bind<[](const Tensor& x) { return dist::all_gather(x); }>},
    {"barrier()", "Waits until all processes have called it.", bind<dist::barrier>},
};

const Entry kDistParts[] = {
    {"average_gradients([parameters])", "Averages the gradients of each backward pass to come.",
     bind<[](const TensorList& list) { dist::average_gradients(list); }>},
};

}  // namespace

void push_dist(lua_State* L) {
  lua_newtable(L);
  add(L, kDist);
  lua_newtable(L);
  add_internal(L, kDistParts);
}

}  // namespace mt::lua
