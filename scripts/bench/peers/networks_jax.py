# networks_jax.py -- the steps of whole_networks.lua in JAX: a whole step is one jit, an epoch of split one scan
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

random = np.random.RandomState(1)


def u(*shape):
    return jnp.asarray((random.rand(*shape) - 0.5).astype("f") * 0.2)


def labels(n, classes=10):
    return jnp.asarray(random.randint(0, classes, n))


def sgd(loss, rate=0.05):
    def step(p, *inputs):
        value, gradient = jax.value_and_grad(loss)(p, *inputs)
        return jax.tree.map(lambda w, g: w - rate * g, p, gradient), value

    return step


def held(step, p, *inputs):
    """Returns a call that makes a step and updates the parameters."""
    compiled, state = jax.jit(step, donate_argnums=0), [p]

    def call():
        state[0], loss = compiled(state[0], *inputs)
        loss.block_until_ready()

    return call


def cross_entropy(z, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1).mean()


def split(hidden):
    x, y = jnp.asarray(random.rand(5, 10, 2).astype("f")), jnp.asarray(random.randint(0, 2, (5, 10)).astype("f"))
    p = (u(2, hidden), u(hidden), u(hidden, hidden), u(hidden), u(hidden, 1), u(1))

    def loss(p, x, y):
        h = jax.nn.relu(x @ p[0] + p[1])
        h = jax.nn.relu(h @ p[2] + p[3])
        out = jax.nn.sigmoid((h @ p[4] + p[5])[:, 0])
        return -(y * jnp.log(out) + (1 - y) * jnp.log(1 - out)).mean()

    step = sgd(loss)

    def epoch(p, x, y):
        p, losses = lax.scan(lambda p, xy: step(p, *xy), p, (x, y))
        return p, losses[-1]

    return held(epoch, p, x, y)


def mlp():
    def loss(p, x, y):
        return cross_entropy(jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3], y)

    return held(sgd(loss), (u(784, 128), u(128), u(128, 10), u(10)), u(64, 784), labels(64))


def cnn():
    def conv(x, w, b):
        return jax.nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME") + b)

    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def loss(p, x, y):
        h = pool(conv(pool(conv(x, p[0], p[1])), p[2], p[3]))
        return cross_entropy(h.reshape(64, -1) @ p[4] + p[5], y)

    p = (u(16, 1, 3, 3), u(16, 1, 1), u(32, 16, 3, 3), u(32, 1, 1), u(1568, 10), u(10))
    return held(sgd(loss), p, u(64, 1, 28, 28), labels(64))


def recurrent(cell, gates, state):
    """A layer over (32, 50, 64), whose last output is mapped to 10 classes; cell(a, b, *state) gets the gates of the
    input and of the state."""

    def loss(p, x, y):
        inputs = jnp.swapaxes(x, 0, 1) @ p[0] + p[2]
        state_of = lambda state, a: (cell(a, state[0] @ p[1] + p[3], *state), None)
        (h, *_), _ = lax.scan(state_of, (jnp.zeros((32, 128)),) * state, inputs)
        return cross_entropy(h @ p[4] + p[5], y)

    n = 128 * gates
    return held(sgd(loss, 0.1), (u(64, n), u(128, n), u(n), u(n), u(128, 10), u(10)), u(32, 50, 64), labels(32))


def lstm():
    def cell(a, b, h, c):
        i, f, g, o = jnp.split(a + b, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c

    return recurrent(cell, 4, 2)


def gru():
    def cell(a, b, h):
        (r, z, n), (hr, hz, hn) = jnp.split(a, 3, 1), jnp.split(b, 3, 1)
        z = jax.nn.sigmoid(z + hz)
        n = jnp.tanh(n + jax.nn.sigmoid(r + hr) * hn)
        return ((1 - z) * n + z * h,)

    return recurrent(cell, 3, 1)


def norm(x, weight, bias):
    d = x - x.mean(-1, keepdims=True)
    return d * lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * weight + bias


def block(x, l, mask, heads):
    batch, length, size = x.shape
    parts = (norm(x, *l["n1"]) @ l["qkv"] + l["qb"]).reshape(batch, length, 3, heads, size // heads)
    q, k, v = jnp.transpose(parts, (2, 0, 3, 1, 4))
    scores = q @ jnp.swapaxes(k, -1, -2) / np.sqrt(size // heads).astype("f")
    a = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), -1) @ v
    x = x + jnp.swapaxes(a, 1, 2).reshape(batch, length, size) @ l["out"] + l["ob"]
    h = jax.nn.gelu(norm(x, *l["n2"]) @ l["up"] + l["ub"], approximate=False)
    return x + h @ l["down"] + l["db"]


def transformer():
    """With AdamW, as the peers' step."""
    size, words, length, heads = 128, 65, 64, 4

    def layer():
        return dict(
            n1=(jnp.ones(size), jnp.zeros(size)), n2=(jnp.ones(size), jnp.zeros(size)), qkv=u(size, 3 * size),
            qb=u(3 * size), out=u(size, size), ob=u(size), up=u(size, 4 * size), ub=u(4 * size),
            down=u(4 * size, size), db=u(size),
        )  # fmt: skip

    p = dict(token=u(words, size), position=u(length, size), layers=[layer() for _ in range(2)],
             norm=(jnp.ones(size), jnp.zeros(size)), head=u(size, words), bias=u(words))  # fmt: skip
    mask = jnp.tril(jnp.ones((length, length), bool))

    def loss(p, x, y):
        h = p["token"][x] + p["position"]
        for l in p["layers"]:
            h = block(h, l, mask, heads)
        return cross_entropy((norm(h, *p["norm"]) @ p["head"] + p["bias"]).reshape(-1, words), y)

    def step(state, x, y):
        p, m, v, count = state
        value, g = jax.value_and_grad(loss)(p, x, y)
        count = count + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        c1, c2 = 1 - 0.9**count, 1 - 0.999**count
        p = jax.tree.map(lambda p, m, v: p * (1 - 1e-5) - 1e-3 * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), p, m, v)
        return (p, m, v, count), value

    zeros = jax.tree.map(jnp.zeros_like, p)
    state = (p, zeros, jax.tree.map(jnp.copy, zeros), jnp.zeros(()))
    return held(step, state, labels((16, length), words), labels(16 * length, words))
