// pickle.cpp -- Python's pickles, read without execution: values, and a few allowed functions
#include "engine/io/pickle.h"

#include <fmt/format.h>

#include <cstring>
#include <unordered_map>

#include "engine/io/bytes.h"
#include "engine/io/json.h"

namespace mt {
namespace {

using Kind = Pickled::Kind;

/// The machine of pickle.py: a stack of values with marks, and a memo. Opcodes have the same names.
class Machine {
 public:
  Machine(const uint8_t* at, const uint8_t* end, PickledValues& values, PickleCalls& calls)
      : at_(at),
        end_(end),
        values_(values),
        calls_(calls) {}

  const Pickled* run() {
    for (uint64_t steps = 0;; ++steps) {
      if (steps % 65536 == 0) check_interrupt();
      const uint8_t op = byte();
      if (op == '.') return pop();
      if (!number(op) && !text(op) && !container(op) && !memo(op) && !object(op))
        fail("its pickle has the opcode {:02x}, which is unknown or not allowed", op);
    }
  }
  const uint8_t* at() const { return at_; }

 private:
  // ---- bytes
  uint8_t byte() { return *bytes(1); }
  const uint8_t* bytes(uint64_t n) {
    if (n > uint64_t(end_ - at_)) fail("its pickle ends too early");
    at_ += n;
    return at_ - n;
  }
  uint64_t little(int n) { return little_endian(bytes(uint64_t(n)), n); }
  std::string_view line() {
    const void* end = std::memchr(at_, '\n', end_ - at_);
    if (!end) fail("its pickle ends too early");
    const uint8_t* const begin = bytes(uint64_t(static_cast<const uint8_t*>(end) - at_ + 1));
    return {reinterpret_cast<const char*>(begin), size_t(at_ - begin - 1)};
  }

  // ---- the stack
  void push(Pickled* value) { stack_.push_back(value); }
  void push(Kind kind, decltype(Pickled::value) value = int64_t(0)) {
    push(values_.add(kind, std::move(value)));
  }
  void need(size_t n) const {
    if (stack_.size() < (marks_.empty() ? 0 : marks_.back()) + n)
      fail("its pickle pops a value from an empty stack");
  }
  Pickled* pop() {
    need(1);
    Pickled* const value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Pickled& top() {
    need(1);
    return *stack_.back();
  }
  PickledList pop_to_mark() {
    if (marks_.empty()) fail("its pickle pops a mark that does not exist");
    const size_t from = marks_.back();
    PickledList list(stack_.begin() + ptrdiff_t(from), stack_.end());
    stack_.resize(from);
    marks_.pop_back();
    return list;
  }
  PickledList pop_list(size_t n) {
    need(n);
    PickledList list(stack_.end() - ptrdiff_t(n), stack_.end());
    stack_.resize(stack_.size() - n);
    return list;
  }
  void extend(Kind kind, const PickledList& more) {
    Pickled& to = top();
    if (!to.is(kind) || (kind == Kind::dict && more.size() % 2))
      fail("its pickle is malformed: {}",
           kind == Kind::dict ? "SETITEMS on a non-dict" : "APPENDS on a non-list");
    PickledList& list = std::get<PickledList>(to.value);
    list.insert(list.end(), more.begin(), more.end());
  }
  const std::string& text_of(const Pickled* p) const {
    if (!p->is(Kind::text)) fail("its pickle has a value that is not text where text must be");
    return p->text();
  }

  // ---- opcodes, grouped by result; false where op is not in the group
  void integer(int64_t x) { push(Kind::integer, x); }
  /// An integer in two's complement; beyond 64 bits a double, or text if that cannot hold it.
  void long_integer(uint64_t n) {
    constexpr uint64_t kMaxBytes = 16;
    if (n > kMaxBytes) fail("it has an integer of {} bytes; at most {} are read", n, kMaxBytes);
    const uint8_t* const p = bytes(n);
    __extension__ typedef __int128 Wide;
    Wide x = n > 0 && (p[n - 1] & 0x80) ? -1 : 0;
    for (uint64_t i = n; i-- > 0;) x = x << 8 | p[i];
    if (x == int64_t(x)) return integer(int64_t(x));
    std::string digits = fmt::format("{}", x);
    if (fits_double(digits)) push(Kind::number, double(x));
    else push(Kind::text, std::move(digits));
  }
  bool number(uint8_t op) {
    switch (op) {
      case 'N': push(Kind::none); return true;
      case 0x88: push(Kind::boolean, int64_t(1)); return true;       // NEWTRUE
      case 0x89: push(Kind::boolean, int64_t(0)); return true;       // NEWFALSE
      case 'J': integer(int32_t(uint32_t(little(4)))); return true;  // BININT
      case 'K': integer(int64_t(little(1))); return true;            // BININT1
      case 'M': integer(int64_t(little(2))); return true;            // BININT2
      case 0x8a: long_integer(little(1)); return true;               // LONG1
      case 0x8b: long_integer(little(4)); return true;               // LONG4
      case 'G': {                                                    // BINFLOAT
        const uint64_t bits = __builtin_bswap64(little(8));
        double x;
        std::memcpy(&x, &bits, sizeof x);
        push(Kind::number, x);
        return true;
      }
      default: return false;
    }
  }

  void characters(uint64_t n) {
    const uint8_t* p = bytes(n);
    push(Kind::text, std::string(reinterpret_cast<const char*>(p), n));
  }
  bool text(uint8_t op) {
    switch (op) {
      case 'U':
      case 'C':
      case 0x8c: characters(little(1)); return true;  // SHORT_BINSTRING, ..
      case 'T':
      case 'X':
      case 'B': characters(little(4)); return true;  // BINSTRING, BINUNICODE, ..
      case 0x8d:
      case 0x8e:
      case 0x96: characters(little(8)); return true;  // BINUNICODE8, ..
      default: return false;
    }
  }

  bool container(uint8_t op) {
    switch (op) {
      case '(': marks_.push_back(stack_.size()); return true;
      case '0':  // POP, also of a mark
        if (!marks_.empty() && marks_.back() == stack_.size()) marks_.pop_back();
        else pop();
        return true;
      case '1': pop_to_mark(); return true;  // POP_MARK
      case '2': push(&top()); return true;   // DUP
      case ']':
      case 0x8f: push(Kind::list, PickledList()); return true;  // EMPTY_LIST, EMPTY_SET
      case '}': push(Kind::dict, PickledList()); return true;
      case ')': push(Kind::tuple, PickledList()); return true;
      case 'l':
      case 0x91: push(Kind::list, pop_to_mark()); return true;  // LIST, FROZENSET
      case 't': push(Kind::tuple, pop_to_mark()); return true;
      case 0x85:
      case 0x86:
      case 0x87: push(Kind::tuple, pop_list(op - 0x84u)); return true;
      case 'd':  // DICT
        push(Kind::dict, pop_to_mark());
        if (top().list().size() % 2) fail("its pickle has a dictionary with a key without a value");
        return true;
      case 'a': extend(Kind::list, pop_list(1)); return true;
      case 'e':
      case 0x90: extend(Kind::list, pop_to_mark()); return true;  // APPENDS, ADDITEMS
      case 's': extend(Kind::dict, pop_list(2)); return true;
      case 'u': extend(Kind::dict, pop_to_mark()); return true;
      default: return false;
    }
  }

  void put(uint64_t key) { memo_[key] = &top(); }
  void get(uint64_t key) {
    const auto at = memo_.find(key);
    if (at == memo_.end()) fail("its pickle gets a value that is not in the memo");
    push(at->second);
  }
  bool memo(uint8_t op) {
    switch (op) {
      case 'q': put(little(1)); return true;
      case 'r': put(little(4)); return true;
      case 0x94: put(memo_.size()); return true;  // MEMOIZE
      case 'h': get(little(1)); return true;
      case 'j': get(little(4)); return true;
      case 0x80:  // PROTO
        if (byte() > 5) fail("its pickle is of a newer protocol than 5");
        return true;
      case 0x95: little(8); return true;  // FRAME
      default: return false;
    }
  }

  bool object(uint8_t op) {
    switch (op) {
      case 'c': {  // GLOBAL
        const std::string module(line());
        push(calls_.global(module + "." + std::string(line())));
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        const PickledList names = pop_list(2);
        push(calls_.global(text_of(names[0]) + "." + text_of(names[1])));
        return true;
      }
      case 'R':
      case 0x81: {  // REDUCE, NEWOBJ
        const PickledList both = pop_list(2);
        if (!both[0]->is(Kind::global) || !both[1]->is(Kind::tuple))
          fail("its pickle calls a value that is not a function");
        push(calls_.call(*both[0], both[1]->list()));
        return true;
      }
      case 'b': {  // BUILD
        const Pickled& state = *pop();
        calls_.state(top(), state);
        return true;
      }
      case 'Q': push(calls_.persistent(*pop())); return true;  // BINPERSID
      default: return false;
    }
  }

  const uint8_t *at_, *const end_;
  PickledValues& values_;
  PickleCalls& calls_;
  std::vector<Pickled*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, Pickled*> memo_;
};

}  // namespace

Pickled* PickledValues::add(Kind kind, decltype(Pickled::value) value) {
  constexpr size_t kMaxText = size_t(1) << 30;  // a call can copy a text that is written once
  if (kind == Kind::text && (text_ += std::get<std::string>(value).size()) > kMaxText)
    fail("its pickle makes more than {} bytes of text", kMaxText);
  return &all_.emplace_back(Pickled{kind, std::move(value)});
}

const Pickled* parse_pickle(const uint8_t*& at, const uint8_t* end, PickledValues& values,
                            PickleCalls& calls) {
  Machine machine(at, end, values, calls);
  const Pickled* const root = machine.run();
  at = machine.at();
  return root;
}

}  // namespace mt
