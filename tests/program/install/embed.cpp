// embed.cpp -- a host with its own Lua state: runs Lua, prints a Lua error, closes the state
#include <mtorch/lua.h>
#include <mtorch/mtorch.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  lua_State* L = luaL_newstate();
  luaL_openlibs(L);
  mt::open_lua(L);
  if (lua_gettop(L) != 1) return 1;  // only the module
  lua_setglobal(L, "mt");            // a host may want it as a global
  const int status = luaL_dostring(
      L, "kept = mt.tensor({1, 2, 3}); print(kept:sum():item(), mt == require 'mtorch')");
  if (status != 0) std::puts(lua_tostring(L, -1));
  const char text[] = "local y = mt.ones(2, 3):matmul(mt.ones(4, 5))";
  if (luaL_loadbuffer(L, text, sizeof text - 1, "=host.lua") != 0 || lua_pcall(L, 0, 0, 0) != 0)
    std::puts(lua_tostring(L, -1));
  // Both sides share a tensor, with its gradient.
  const mt::Tensor shared = mt::tensor({1, 2}).requires_grad_();
  mt::tensor_to_lua(L, shared);
  lua_setglobal(L, "shared");
  if (luaL_dostring(L, "local y = (shared * 3):sum() y:backward() return y, 5"))
    std::puts(lua_tostring(L, -1));
  std::printf("%g %g %d\n", mt::tensor_from_lua(L, -2).item(), shared.grad().at(1),
              mt::tensor_from_lua(L, -1).defined());
  lua_pop(L, 2);
  // Labels count from 1 in Lua and from 0 here, in one process. The file is that of train.cpp.
  const float logits[] = {1, 2, 4};
  mt::save_safetensors(
      argv[1], {{"x", mt::tensor(logits, {1, 3})}, {"label", mt::tensor({2}, mt::Dtype::i64)}});
  const mt::TensorFile file = mt::load_safetensors(argv[1]);
  const mt::Tensor loss = mt::cross_entropy(file.at("x"), file.at("label"));
  lua_pushstring(L, argv[1]);
  lua_setglobal(L, "path");
  if (luaL_dostring(L, "local t = mt.load(path); loss = mt.cross_entropy(t.x, t.label + 1):item()"))
    std::puts(lua_tostring(L, -1));
  lua_getglobal(L, "loss");
  std::printf("%g\n", loss.item() - lua_tonumber(L, -1));
  if (luaL_dostring(L, "print(pcall(mt.cross_entropy, mt.zeros(1, 3), mt.tensor({4}):long()))"))
    std::puts(lua_tostring(L, -1));
  try {
    mt::cross_entropy(file.at("x"), mt::tensor({3}, mt::Dtype::i64));
  } catch (const mt::Error& e) { std::puts(e.what()); }
  lua_close(L);
  std::printf("%g\n", mt::ones({4}).sum().item());  // the engine works without Lua
  try {
    mt::empty({int64_t(1) << 43}, mt::Dtype::f32);  // must not call the closed state's collector
  } catch (const mt::Error&) {}
  return status;
}
