// jupyter_kernel.cpp -- libmtorch_jupyter.so: Jupyter's messages (by xeus) as calls of bindings/lua/jupyter/kernel.lua
//
// Requests are handled on the main thread, which runs Lua; control messages and the heartbeat have their own
// threads. SIGINT is blocked except while a cell runs. What is printed goes into a buffer, which a
// thread publishes every 20 ms, and the main thread before it publishes anything else.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <lua.hpp>
#include <mutex>
#include <string>
#include <thread>
#include <xeus/xinterpreter.hpp>
#include <xeus/xkernel.hpp>
#include <xeus/xserver_shell_main.hpp>

#include "bindings/program/program.h"

namespace mt::program {
namespace {

using nlohmann::json;

/// The text printed by a cell, by stream, until it is published.
class Output {
 public:
  explicit Output(xeus::xinterpreter& to) : to_(to) {
    std::thread([this] { publish_regularly(); }).detach();
  }
  /// Replaces a standard stream by one that writes here.
  std::FILE* open(bool is_error) {
    cookie_io_functions_t write_only{};
    write_only.write = [](void* stream, const char* text, size_t size) {
      const bool error = static_cast<Stream*>(stream)->is_error;
      return static_cast<Stream*>(stream)->output->add(error, {text, size});
    };
    streams_[is_error] = {this, is_error};
    std::FILE* const file = fopencookie(&streams_[is_error], "w", write_only);
    if (file) setvbuf(file, nullptr, _IONBF, 0);
    return file;
  }
  /// A cell runs, or does not: printed text is published only while one runs.
  void run(bool running) {
    const std::lock_guard lock(mutex_);
    if (!running) publish_text();
    running_ = running;
    changed_.notify_one();
  }
  /// Publishes the text printed so far, then calls `publish` while no other thread publishes.
  template <class F> void after_text(F publish) {
    const std::lock_guard lock(mutex_);
    publish_text();
    publish();
  }

 private:
  struct Stream {
    Output* output;
    bool is_error;
  };
  ssize_t add(bool is_error, std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (is_error != text_is_error_) publish_text();
    text_is_error_ = is_error;
    text_ += text;
    if (text_.size() > 1 << 20) publish_text();
    changed_.notify_one();
    return ssize_t(text.size());
  }
  void publish_text() {
    if (text_.empty() || !running_) return;
    to_.publish_stream(text_is_error_ ? "stderr" : "stdout", std::exchange(text_, {}));
  }
  void publish_regularly() {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [this] { return running_ && !text_.empty(); });
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      lock.lock();
      publish_text();
    }
  }

  xeus::xinterpreter& to_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool text_is_error_ = false, running_ = false;
  Stream streams_[2];
};

class Kernel : public xeus::xinterpreter {
 public:
  Kernel(lua_State* state, const JupyterHost& host) : L(state), host_(host), output_(*this) {}

  /// Redirects standard output, and gives Lua the functions publish(kind, content) and input(prompt, password).
  bool prepare() {
    std::FILE *const out = output_.open(false), *const error = output_.open(true);
    if (!out || !error) return false;
    std::fflush(stdout);
    stdout = out, stderr = error;
    for (const auto& [name, file] : {std::pair{"stdout", out}, {"stderr", error}}) {
      lua_getglobal(L, "io");
      lua_getfield(L, -1, name);
      *static_cast<std::FILE**>(lua_touserdata(L, -1)) = file;  // LUA_FILEHANDLE is a FILE *
      lua_pop(L, 2);
    }
    push_function("open");
    for (const lua_CFunction f : {publish, input}) {
      lua_pushlightuserdata(L, this);
      lua_pushcclosure(L, f, 1);
    }
    lua_pushliteral(L, MT_VERSION);
    return host_.call(L, 3, 0) == 0;
  }
  /// What went wrong in `prepare`.
  std::string failure() { return lua_tostring(L, -1); }

 private:
  void push_function(const char* name) {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "mtorch.jupyter.kernel");
    if (host_.call(L, 1, 1) == 0) lua_getfield(L, -1, name);
    else lua_pushvalue(L, -1);  // calling the message fails with it
    lua_remove(L, -2);
  }
  /// Calls a function of kernel.lua with a text and a number; returns its result, which is JSON.
  json ask(const char* name, const std::string& text, int number) {
    const int top = lua_gettop(L);
    push_function(name);
    lua_pushlstring(L, text.data(), text.size());
    lua_pushinteger(L, number);
    const bool failed = host_.call(L, 2, 1) != 0;
    size_t size = 0;
    const char* const result = lua_tolstring(L, -1, &size);
    const std::string copy(result ? result : "", size);
    lua_settop(L, top);
    if (!failed) return json::parse(copy, nullptr, false);
    host_.take_interrupt();
    push_function("failed");
    lua_pushlstring(L, copy.data(), copy.size());
    json error{
        {"status", "error"}, {"ename", "error"}, {"evalue", copy}, {"traceback", json::array()}};
    if (host_.call(L, 1, 1) == 0) error = json::parse(lua_tostring(L, -1), nullptr, false);
    lua_settop(L, top);
    return error;
  }

  static Kernel& self(lua_State* L) {
    return *static_cast<Kernel*>(lua_touserdata(L, lua_upvalueindex(1)));
  }
  static int publish(lua_State* L) {
    const std::string kind = luaL_checkstring(L, 1);
    json content = json::parse(luaL_checkstring(L, 2), nullptr, false);
    self(L).output_.after_text([&] {
      Kernel& k = self(L);
      if (kind == "display_data" || kind == "update_display_data")
        (k.*(kind[0] == 'd' ? &Kernel::display_data : &Kernel::update_display_data))(
            content["data"], json::object(), content["transient"]);
      else if (kind == "execute_result")
        k.publish_execution_result(content["execution_count"], content["data"], json::object());
      else if (kind == "clear_output") k.clear_output(content.value("wait", true));
      else k.publish_execution_error(content["ename"], content["evalue"], content["traceback"]);
    });
    return 0;
  }
  static int input(lua_State* L) {
    Kernel& k = self(L);
    const std::string prompt = luaL_optstring(L, 1, "");
    if (!k.allow_stdin_) return luaL_error(L, "this front end has no standard input");
    k.output_.after_text([] {});
    k.register_input_handler([&k](const std::string& text) { k.input_ = text; });
    try {
      k.input_request(prompt, lua_toboolean(L, 2));
    } catch (const std::exception&) {  // a signal ended the wait
      lua_pushnil(L);
      return 1;
    }
    lua_pushlstring(L, k.input_.data(), k.input_.size());
    return 1;
  }

  void configure_impl() override {}
  json execute_request_impl(int count, const std::string& code, bool silent, bool, json,
                            bool allow_stdin) override {
    allow_stdin_ = allow_stdin;
    output_.run(true);
    accept_interrupts(true);
    json reply = ask(silent ? "execute_silently" : "execute", code, count);
    accept_interrupts(false);
    host_.take_interrupt();
    output_.run(false);
    return reply;
  }
  json complete_request_impl(const std::string& code, int cursor) override {
    return ask("complete", code, cursor);
  }
  json inspect_request_impl(const std::string& code, int cursor, int) override {
    return ask("inspect", code, cursor);
  }
  json is_complete_request_impl(const std::string& code) override {
    return ask("is_complete", code, 0);
  }
  json kernel_info_request_impl() override { return ask("info", "", 0); }
  void shutdown_request_impl() override {}

  /// A SIGINT from before the cell is dropped: an ignored signal does not stay pending.
  static void accept_interrupts(bool accept) {
    sigset_t interrupt;
    sigemptyset(&interrupt), sigaddset(&interrupt, SIGINT);
    if (accept) {
      struct sigaction action, ignore{};
      ignore.sa_handler = SIG_IGN;
      sigaction(SIGINT, &ignore, &action);
      sigaction(SIGINT, &action, nullptr);
    }
    pthread_sigmask(accept ? SIG_UNBLOCK : SIG_BLOCK, &interrupt, nullptr);
  }

  lua_State* const L;
  const JupyterHost host_;
  Output output_;
  std::string input_;
  bool allow_stdin_ = false;
};

}  // namespace
}  // namespace mt::program

/// Serves a connection file of Jupyter until the kernel is shut down. Returns an exit status, or does not return.
extern "C" __attribute__((visibility("default"))) int mtorch_jupyter(
    lua_State* L, const char* connection_file, const mt::program::JupyterHost& host) {
  if (!std::ifstream(connection_file)) {
    std::fprintf(stderr, "mtorch: jupyter: cannot read the connection file %s\n", connection_file);
    return 1;
  }
  sigset_t interrupt;
  sigemptyset(&interrupt), sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);  // threads that start from here on inherit it
  std::thread([server = getppid()] {  // ends with the server that started it, as ipykernel does
    while (getppid() == server) std::this_thread::sleep_for(std::chrono::seconds(1));
    _exit(1);
  })
      .detach();
  std::FILE* const error = stderr;  // the kernel redirects the other
  try {
    const auto configuration = xeus::load_configuration(connection_file);
    auto kernel = std::make_unique<mt::program::Kernel>(L, host);
    if (!kernel->prepare()) {
      std::fprintf(error, "mtorch: jupyter: %s\n", kernel->failure().c_str());
      return 1;
    }
    xeus::xkernel server(configuration, "mtorch", xeus::make_context<zmq::context_t>(),
                         std::move(kernel), xeus::make_xserver_shell_main,
                         xeus::make_in_memory_history_manager(), nullptr, xeus::make_null_debugger,
                         nlohmann::json::object(), nlohmann::json::error_handler_t::replace);
    server.start();
  } catch (const std::exception& e) {
    std::fprintf(error, "mtorch: jupyter: %s\n", e.what());
    return 1;
  }
  return 0;
}
