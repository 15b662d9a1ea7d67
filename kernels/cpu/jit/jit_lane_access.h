// jit_lane_access.h -- neighbouring threads of a grid kernel as lanes of vectors: masks, loads and stores
//
// Lane l of a vector is the thread l places after the one at r13. Integers that are equal in the lanes, or grow by a
// constant number from lane to lane, are scalars: the value of lane 0. The others are vectors of int64. A boolean that
// varies is a mask: a mask register in AVX-512, and a vector of reals in AVX2.
#pragma once
#include "kernels/cpu/jit/grid_steps.h"
#include "kernels/cpu/jit/jit_thread_access.h"

namespace mt {

/// Emits the vector instruction of floats or doubles, depending on the element size.
#define MT_PACKED(name, ...) (item_ == 4 ? asm_.name##ps(__VA_ARGS__) : asm_.name##pd(__VA_ARGS__))
/// Emits the AVX-512 or the AVX2 instruction that computes a mask from two.
#define MT_MASKS(wide, narrow, to, a, b) \
  (wide_ ? asm_.wide##w(kmask(to), kmask(a), kmask(b)) : asm_.narrow##ps(Ymm(to), Ymm(a), Ymm(b)))

/// Layer 2 of the machine code of threads: lanes. Registers 0 to 5 are temporaries, 6 to 8 are scratch. A mask has the
/// number of a vector register, which contains it in AVX2: those of temporaries, kScratch, and kActive for the lanes
/// that are active.
class LaneAccess : protected ThreadAccess {
 protected:
  using S = GridStatement;
  using Opmask = Xbyak::Opmask;
  using Ymm = Xbyak::Ymm;
  using Zmm = Xbyak::Zmm;
  static constexpr int kScratch = 6, kThird = 8, kFirst = 9, kActive = 15;
  static constexpr int64_t kVaries = GridSteps::kVaries;

  LaneAccess(const Grid& g, FindLoop* find_loop, std::vector<uint8_t>& buffer, bool wide)
      : ThreadAccess(g, find_loop, buffer.data(), buffer.size()),
        phases_(*g.program),
        wide_(wide),
        row_(g.program->in_blocks ? int(g.tile[g.axes[0]]) : 0) {
    if (item_ == 8) lanes_ = wide ? 8 : 4;
    else lanes_ = wide && row_ > 8 ? 16 : 8;
    parts_ = 8 * lanes_ / (wide ? 64 : 32);
    part_bytes_ = wide ? 64 : 32;
  }

  Xmm vec(int r) const {
    if (lanes_ * item_ == 64) return Zmm(r);
    return Ymm(r);
  }
  Xmm part(int r) const {
    if (wide_) return Zmm(r);
    return Ymm(r);
  }
  /// The register with this number for a real, or for those in all lanes.
  Xmm real_register(int r, bool lanes) const {
    if (lanes) return vec(r);
    return Xmm(r);
  }
  static Opmask kmask(int m) { return Opmask(m == kActive ? 1 : m == kScratch ? 7 : 2 + m); }
  static Opmask k1() { return kmask(kActive); }
  static Opmask k7() { return kmask(kScratch); }

  int take_lanes(int count = 1) {
    const int first = lane_slots_;
    if (first + count > ThreadFrame::kLaneSlots) return fine_ = false, 0;
    lane_slots_ += count;
    return first;
  }
  RegExp lane_place(int slot, int byte = 0) {
    return rbp + int(offsetof(ThreadFrame, lanes)) + ThreadFrame::kLaneBytes * slot + byte;
  }
  Address lane_slot(int slot, int byte = 0) { return asm_.ptr[lane_place(slot, byte)]; }
  Address bytes_of_slot(int slot, int p) { return lane_slot(slot, p * part_bytes_); }

  // ---- masks ---------------------------------------------------------------------------------------

  void save_mask(int slot, int m) {
    if (wide_) asm_.kmovw(lane_slot(slot), kmask(m));
    else asm_.vmovups(lane_slot(slot), Ymm(m));
  }
  void load_mask(int slot, int m) {
    if (wide_) asm_.kmovw(kmask(m), lane_slot(slot));
    else asm_.vmovups(Ymm(m), lane_slot(slot));
  }
  void invert(int m) {
    if (wide_)
      return lanes_ == 16 ? asm_.knotw(kmask(m), kmask(m)) : asm_.knotb(kmask(m), kmask(m));
    asm_.vpcmpeqd(Ymm(kScratch), Ymm(kScratch), Ymm(kScratch));
    asm_.vxorps(Ymm(m), Ymm(m), Ymm(kScratch));
  }
  void activate_all() {
    if (wide_) asm_.mov(eax, (1 << lanes_) - 1), asm_.kmovw(k1(), eax);
    else asm_.vpcmpeqd(Ymm(kActive), Ymm(kActive), Ymm(kActive));
    masked_ = true;
  }
  /// Activates the lanes whose number is below rax.
  void activate_first() {
    if (wide_) {
      asm_.mov(edx, -1);
      asm_.bzhi(edx, edx, eax);
      asm_.kmovw(k1(), edx);
    } else {
      broadcast_whole(kScratch, rax);
      for (int p = 0; p < parts_; ++p)
        asm_.vpcmpgtq(Ymm(p), Ymm(kScratch), asm_.ptr[asm_.rip + tables_[1] + p * part_bytes_]);
      pack(0);
      asm_.vmovaps(Ymm(kActive), Ymm(0));
    }
    masked_ = true;
  }
  void jump_if_none(Label& to) {
    if (wide_) asm_.kortestw(k1(), k1());
    else asm_.vptest(Ymm(kActive), Ymm(kActive));
    asm_.jz(to);
  }
  /// The active lanes as bits of an integer.
  void active_bits(const Xbyak::Reg32& to) {
    if (!masked_) asm_.mov(to, (1 << lanes_) - 1);
    else if (wide_) asm_.kmovw(to, k1());
    else MT_PACKED(vmovmsk, to, Ymm(kActive));
  }
  /// AVX2: joins masks of int64 in the registers from r on to a mask of reals.
  void pack(int r) {
    if (wide_ || parts_ == 1) return;
    asm_.vshufps(Ymm(r), Ymm(r), Ymm(r + 1), 0x88);
    asm_.vpermq(Ymm(r), Ymm(r), 0xd8);
  }
  /// AVX2: part p of the mask in a register, as a mask of int64.
  void unpack(int to, int from, int p) {
    if (parts_ == 1) return asm_.vmovaps(Ymm(to), Ymm(from));
    if (p == 0) return asm_.vpmovsxdq(Ymm(to), Xmm(from));
    asm_.vextracti128(Xmm(to), Ymm(from), 1);
    asm_.vpmovsxdq(Ymm(to), Xmm(to));
  }
  /// AVX-512: the active lanes of part p, in k1 or k7.
  Opmask active_part(int p) {
    if (p == 0) return k1();
    asm_.kshiftrw(k7(), k1(), 8);
    return k7();
  }

  void broadcast_whole(int r, const Reg64& from) {
    if (wide_) return asm_.vpbroadcastq(Zmm(r), from);
    asm_.vmovq(Xmm(r), from);
    asm_.vpbroadcastq(Ymm(r), Xmm(r));
  }
  void save_parts(int slot, int r) {
    for (int p = 0; p < parts_; ++p) asm_.vmovups(bytes_of_slot(slot, p), part(r + p));
  }
  void load_parts(int slot, int r) {
    for (int p = 0; p < parts_; ++p) asm_.vmovups(part(r + p), bytes_of_slot(slot, p));
  }
  /// Saves the reals or integers in the first free temporaries.
  void save_lanes(int slot, GridType type, Used used) {
    if (type == GridType::real) asm_.vmovups(lane_slot(slot), vec(used.real));
    else save_parts(slot, used.real);
  }
  void load_lanes(int slot, GridType type, Used used) {
    if (type == GridType::real) asm_.vmovups(vec(used.real), lane_slot(slot));
    else load_parts(slot, used.real);
  }
  void move_whole(int slot, int r, bool save) {
    save ? asm_.vmovups(lane_slot(slot), part(r)) : asm_.vmovups(part(r), lane_slot(slot));
  }
  void broadcast_real(const Xmm& to, const Operand& from) {
    if (item_ == 4) return asm_.vbroadcastss(to, from);
    return to.isZMM() ? asm_.vbroadcastsd(Zmm(to.getIdx()), from)
                      : asm_.vbroadcastsd(Ymm(to.getIdx()), from);
  }
  /// The lanes of `yes` that are set in mask m, otherwise those of `no`.
  void blend_reals(const Xmm& to, const Xmm& yes, const Xmm& no, int m) {
    if (wide_) MT_PACKED(vblendm, to | kmask(m), no, yes);
    else MT_PACKED(vblendv, to, no, yes, Ymm(m));
  }
  /// Computes integers, or booleans as 0 or 1, into the first free temporaries.
  virtual void wholes(const V& v, Used used) = 0;
  /// Computes booleans as the mask of the first free temporary.
  virtual void mask(const V& v, Used used) = 0;

  // ---- accesses ------------------------------------------------------------------------------------

  /// Whether the lanes access neighbouring elements.
  bool is_row(const V& v) const {
    const GridTensor& t = grid_.tensors[v.index];
    int64_t all = 0;
    for (int d = 0; d < t.ndim; ++d) {
      const int64_t step = steps_->of(*v.args[size_t(d)]);
      if (step == 0) continue;
      const bool known = step != kVaries && std::abs(step) <= 64;
      if (!known || (!t.shared && t.stride[d] != 1)) return false;
      all += step * (t.shared ? t.stride[d] : 1);
    }
    return all == 1;
  }
  /// Jumps out of line if the index in a register, of lane 0, is out of bounds in an active lane.
  void check_index(const V& v, int d, const Reg64& k) override {
    const int64_t step = in_lanes_ ? steps_->of(*v.args[size_t(d)]) : 0;
    if (step == 0) return ThreadAccess::check_index(v, d, k);
    edges_.push_back({{}, {}, &v, d, k.getIdx(), step, masked_, take()});
    Edge& e = edges_.back();
    asm_.lea(rdx, asm_.ptr[k + int(step * (lanes_ - 1))]);
    for (const Reg64& x : {rdx, k}) {
      compare_size(x, v, d);
      asm_.jae(e.label);
    }
    asm_.L(e.back);
  }
  /// Looks for an active lane whose index is out of bounds, and reports it.
  void check_edges() {
    for (Edge& e : edges_) {
      Label again, next, bad;
      asm_.L(e.label);
      masked_ = e.masked;
      active_bits(eax);
      masked_ = false;
      asm_.mov(whole_slot(e.slot), rax);
      asm_.xor_(edx, edx);
      asm_.L(again);
      asm_.mov(rax, whole_slot(e.slot));
      asm_.bt(rax, rdx);
      asm_.jnc(next);
      asm_.imul(rax, rdx, int(e.step));
      asm_.add(rax, Reg64(e.k));
      compare_size(rax, *e.access, e.d);
      asm_.jae(bad);
      asm_.L(next);
      asm_.inc(rdx);
      asm_.cmp(rdx, lanes_);
      asm_.jl(again);
      asm_.jmp(e.back);
      asm_.L(bad);
      asm_.add(r13, rdx);
      asm_.mov(Reg64(e.k), rax);
      asm_.jmp(fault(*e.access, e.d, e.k));
    }
    edges_.clear();
  }

  void load_reals(const V& v, Used used) {
    const Dtype dtype = grid_.tensors[v.index].dtype;
    const Xmm to = vec(used.real);
    const bool direct = dtype == real_, half = dtype == Dtype::f16 || dtype == Dtype::bf16;
    const bool converts = item_ == 8 ? dtype == Dtype::f32 : half;
    if (!is_row(v) || (!direct && !converts) || (converts && masked_ && !wide_))
      return load_each(v, used);
    const Address from = asm_.ptr[element(v, used)];
    const Xmm in = masked_ && wide_ ? to | k1() | Xbyak::util::T_z : to;
    if (direct) {
      if (masked_ && !wide_) MT_PACKED(vmaskmov, to, Ymm(kActive), from);
      else MT_PACKED(vmovu, in, from);
    } else if (dtype == Dtype::f32) {
      asm_.vcvtps2pd(in, from);
    } else if (dtype == Dtype::f16) {
      asm_.vcvtph2ps(in, from);
    } else {
      asm_.vpmovzxwd(in, from);
      asm_.vpslld(to, to, 16);
    }
  }
  void load_wholes(const V& v, Used used) {
    const Dtype dtype = grid_.tensors[v.index].dtype;
    const int item = int(item_size(dtype));
    if (!is_row(v) || (masked_ && !wide_)) return load_each(v, used);
    const RegExp from = element(v, used);
    for (int p = 0; p < parts_; ++p) {
      const Xmm to = part(used.real + p);
      const Xmm in = masked_ ? to | active_part(p) | Xbyak::util::T_z : to;
      const Address at = asm_.ptr[from + p * part_bytes_ / 8 * item];
      switch (dtype) {
        case Dtype::i64: wide_ ? asm_.vmovdqu64(in, at) : asm_.vmovdqu(in, at); break;
        case Dtype::i32: asm_.vpmovsxdq(in, at); break;
        case Dtype::i16: asm_.vpmovsxwq(in, at); break;
        case Dtype::i8: asm_.vpmovsxbq(in, at); break;
        case Dtype::u8:
        case Dtype::b8: asm_.vpmovzxbq(in, at); break;
        default: fine_ = false;
      }
    }
  }
  /// Stores the reals, or the integers or 0 and 1 of a boolean, that are in the first temporaries.
  void store_lanes(const V& place, GridType type) {
    const Dtype dtype = grid_.tensors[place.index].dtype;
    const bool real = type == GridType::real;
    const bool direct = real ? dtype == real_ || (wide_ && dtype == Dtype::f32)
                             : wide_ || (item_size(dtype) >= 4 && !masked_);
    if (!is_row(place) || !direct) return store_each(place, type);
    const RegExp to = element(place, {0, real ? 1 : parts_});
    if (real) {
      const bool shortens = dtype != real_;
      const Xmm x = shortens ? Ymm(0) : vec(0);
      if (shortens) asm_.vcvtpd2ps(Ymm(0), Zmm(0));
      if (masked_ && !wide_) MT_PACKED(vmaskmov, asm_.ptr[to], Ymm(kActive), x);
      else if (!masked_) asm_.vmovups(asm_.ptr[to], x);
      else
        shortens || item_ == 4 ? asm_.vmovups(asm_.ptr[to] | k1(), x)
                               : asm_.vmovupd(asm_.ptr[to] | k1(), x);
      return;
    }
    const int item = int(item_size(dtype));
    if (!wide_ && item == 4) {
      asm_.vshufps(Ymm(0), Ymm(0), Ymm(parts_ - 1), 0x88);
      asm_.vpermq(Ymm(0), Ymm(0), 0xd8);
      return asm_.vmovups(asm_.ptr[to], parts_ == 1 ? Xmm(0) : Ymm(0));
    }
    for (int p = 0; p < parts_; ++p) {
      const Address at = asm_.ptr[to + p * part_bytes_ / 8 * item];
      const Address into = masked_ ? at | active_part(p) : at;
      const Xmm x = part(p);
      if (!wide_) asm_.vmovdqu(at, x);
      else if (item == 8) asm_.vmovdqu64(into, x);
      else if (item == 4) asm_.vpmovqd(into, x);
      else item == 2 ? asm_.vpmovqw(into, x) : asm_.vpmovqb(into, x);
    }
  }

  /// Emits a loop over the active lanes, which may change xmm0 and xmm1. `last`: f does not use the last temporary.
  template <class F> void each_lane(Used used, bool last, const F& f) {
    if (used.whole + 1 >= kWholes) return void(fine_ = false);
    const Reg64 lane = temporary(used.whole), rest = last ? temporary(kWholes - 1) : rax;
    const int slots = slots_, vectors = lane_slots_, bits = take(), saved = take_lanes(2);
    for (int k = 0; k < std::min(used.real, 2); ++k) move_whole(saved + k, k, true);
    active_bits(rest.cvt32());
    Label again;
    asm_.L(again);
    asm_.tzcnt(lane, rest);
    asm_.blsr(rest, rest);
    if (!last) asm_.mov(whole_slot(bits), rest);
    f(lane);
    if (!last) asm_.mov(rest, whole_slot(bits));
    asm_.test(rest, rest);
    asm_.jnz(again);
    for (int k = 0; k < std::min(used.real, 2); ++k) move_whole(saved + k, k, false);
    slots_ = slots, lane_slots_ = vectors;
  }
  /// Emits a loop over the active lanes that calls f(lane, address, free temporaries) for their elements.
  template <class F> void each_element(const V& v, Used used, bool last, const F& f) {
    const GridTensor& t = grid_.tensors[v.index];
    const int slots = slots_, vectors = lane_slots_, base = take();
    int index[kMaxDims];
    bool any = false;
    for (int d = 0; d < t.ndim; ++d) {
      const V& x = *v.args[size_t(d)];
      index[d] = -1;
      if (steps_->of(x) != 0) {
        wholes(x, used), save_parts(index[d] = take_lanes(), used.real);
        continue;
      }
      offset_of(v, d, used);
      if (any) asm_.add(whole_slot(base), temporary(used.whole));
      else asm_.mov(whole_slot(base), temporary(used.whole));
      any = true;
    }
    each_lane(used, last && used.whole == 0, [&](const Reg64& lane) {
      if (used.whole + 2 >= kWholes) return void(fine_ = false);
      const Reg64 k = temporary(used.whole + 1), at = temporary(used.whole + 2);
      bool added = any;
      if (any) asm_.mov(at, whole_slot(base));
      for (int d = 0; d < t.ndim; ++d) {
        if (index[d] < 0) continue;
        const Reg64 to = added ? k : at;
        asm_.mov(to, asm_.ptr[lane_place(index[d]) + lane * 8]);
        asm_.dec(to);
        compare_size(to, v, d);
        asm_.jae(fault(v, d, to.getIdx()));
        faults_.back().masked = false, faults_.back().lane = lane.getIdx();
        times_stride(to, v, d);
        if (added) asm_.add(at, k);
        added = true;
      }
      f(lane, data_of(v.index) + at * int(item_size(t.dtype)), k);
    });
    slots_ = slots, lane_slots_ = vectors;
  }
  /// Whether each index grows by a known number from lane to lane.
  bool has_steps(const V& v) const {
    return std::none_of(v.args.begin(), v.args.end(),
                        [&](const V* a) { return steps_->of(*a) == kVaries; });
  }
  /// Loads elements of all lanes that are equally far apart, one after the other.
  void load_steps(const V& v, Used used) {
    if (used.whole + 2 >= kWholes) return void(fine_ = false);
    const GridTensor& t = grid_.tensors[v.index];
    const int item = int(item_size(t.dtype)), vectors = lane_slots_, out = take_lanes();
    const Reg64 at = temporary(used.whole), by = temporary(used.whole + 1);
    asm_.lea(at, asm_.ptr[element(v, used)]);
    asm_.xor_(by.cvt32(), by.cvt32());
    for (int d = 0; d < t.ndim; ++d) {
      const int64_t step = steps_->of(*v.args[size_t(d)]) * item;
      if (step == 0) continue;
      asm_.mov(rax, step);
      times_stride(rax, v, d);
      asm_.add(by, rax);
    }
    for (int l = 0; l < lanes_; ++l) {
      load_from(RegExp(at), t.dtype, Xmm(used.real), used.whole + 2);
      if (v.type == GridType::real) move_real(lane_slot(out, item_ * l), Xmm(used.real));
      else asm_.mov(lane_slot(out, 8 * l), temporary(used.whole + 2));
      if (l + 1 < lanes_) asm_.add(at, by);
    }
    load_lanes(out, v.type, used);
    lane_slots_ = vectors;
  }
  void load_each(const V& v, Used used) {
    if (!masked_ && has_steps(v)) return load_steps(v, used);
    Label outside, done;
    const bool gathers = is_gathered(v) && used.real + parts_ < kReals;
    if (gathers) {
      gather(v, used, outside);
      asm_.jmp(done);
      asm_.L(outside);
    }
    load_one_by_one(v, used);
    asm_.L(done);
  }
  /// Whether AVX2 has an instruction that loads the elements of all lanes.
  bool is_gathered(const V& v) const {
    const GridTensor& t = grid_.tensors[v.index];
    return !wide_ && t.dtype == real_ && t.ndim == 1 && t.stride[0] == 1 && !has_steps(v);
  }
  /// Loads reals at computed positions, or jumps if one of an active lane is outside.
  void gather(const V& v, Used used, Label& outside) {
    const int r = used.real, free = r + parts_, size = kScratch, inside = kScratch + 1;
    const GridTensor& t = grid_.tensors[v.index];
    const auto active = [&](int to) {
      masked_ ? asm_.vmovaps(Ymm(to), Ymm(kActive)) : asm_.vpcmpeqd(Ymm(to), Ymm(to), Ymm(to));
    };
    wholes(*v.args[0], used);
    if (!is_inside(v, 0)) {
      if (t.shared) asm_.mov(rax, t.size[0]);
      else asm_.mov(rax, tensor_word(v.index, offsetof(GridTensor, size)));
      broadcast_whole(size, rax);
      asm_.vpxor(Xmm(free), Xmm(free), Xmm(free));
      for (int p = 0; p < parts_; ++p) {
        const Ymm in(inside + p);
        asm_.vpcmpgtq(in, Ymm(r + p), Ymm(size));
        asm_.vpandn(in, in, Ymm(r + p));
        asm_.vpcmpgtq(in, in, Ymm(free));
      }
      pack(inside);
      active(free);
      asm_.vptest(Ymm(inside), Ymm(free));
      asm_.jnc(outside);
    }
    const Reg64 data = data_of(v.index);
    active(inside);
    asm_.vxorps(Xmm(size), Xmm(size), Xmm(size));
    if (item_ == 8) {
      asm_.vgatherqpd(Ymm(size), asm_.ptr[data + Ymm(r) * 8 - 8], Ymm(inside));
      return asm_.vmovaps(Ymm(r), Ymm(size));
    }
    asm_.vextractf128(Xmm(kThird), Ymm(inside), 1);
    asm_.vxorps(Xmm(free), Xmm(free), Xmm(free));
    asm_.vgatherqps(Xmm(size), asm_.ptr[data + Ymm(r) * 4 - 4], Xmm(inside));
    asm_.vgatherqps(Xmm(free), asm_.ptr[data + Ymm(r + 1) * 4 - 4], Xmm(kThird));
    asm_.vinsertf128(Ymm(r), Ymm(size), Xmm(free), 1);
  }
  void load_one_by_one(const V& v, Used used) {
    const int vectors = lane_slots_, out = take_lanes();
    const bool real = v.type == GridType::real;
    each_element(v, used, true, [&](const Reg64& lane, const RegExp& from, const Reg64& k) {
      load_from(from, grid_.tensors[v.index].dtype, xmm0, used.whole + 1);
      if (real) move_real(asm_.ptr[lane_place(out) + lane * item_], xmm0);
      else asm_.mov(asm_.ptr[lane_place(out) + lane * 8], k);
    });
    load_lanes(out, v.type, used);
    lane_slots_ = vectors;
  }
  void store_each(const V& place, GridType type) {
    const int in = take_lanes();
    const bool real = type == GridType::real;
    save_lanes(in, type, kNone);
    each_element(place, kNone, true, [&](const Reg64& lane, const RegExp& to, const Reg64& k) {
      if (real) move_real(xmm0, asm_.ptr[lane_place(in) + lane * item_]);
      else asm_.mov(k, asm_.ptr[lane_place(in) + lane * 8]);
      store_to(to, grid_.tensors[place.index].dtype, xmm0, k);
    });
  }

  int home_slot(const V& v) {
    const auto found = lane_homes_.find(v.index);
    return found == lane_homes_.end() ? (fine_ = false, 0) : found->second;
  }

  const GridPhases phases_;
  const bool wide_;                 // AVX-512
  const int row_;                   // threads of a block along axes[0]
  int lanes_, parts_, part_bytes_;  // parts: the registers of a vector of integers
  const GridSteps* steps_ = nullptr;
  std::map<int64_t, Label> tables_;  // the multiples of a step
  std::map<int, int> lane_homes_;    // of variables that vary and have no register
  int lane_slots_ = 0;
  struct Edge {
    Label label, back;
    const V* access;
    int d, k;
    int64_t step;
    bool masked;
    int slot;
  };
  std::deque<Edge> edges_;
};

}  // namespace mt
