"""LSTM, GRU and the vanilla RNN over whole sequences, with hand-written gradients.

Only what depends on the previous step stays in the time loop: the recurrent
matmul and the gates, and in the backward pass the gates' gradient and dh. The input
projection and the gradients of the kernel, the recurrent kernel and the inputs
are one matmul each over all time steps.

The loop is a `tf.while_loop`. Unrolling it in Python was slower on a CPU
(T = 20), takes longer to compile under XLA, and needs a static T. The recurrent
kernel is transposed once before the backward loop, which is faster than
`transpose_b` in every step. The loops return stacked tensors instead of
TensorArrays, because XLA cannot pass those from the forward to the backward pass.

A masked step leaves the states as they are, whatever its inputs are, and its output is the hidden
state that stays.

Shapes: B streams, T time steps, D features, H units. Gates in Keras order.
"""

import tensorflow as tf

from tfsoftmax.support._compat import custom_gradient

# Both take (y, dy), where y is the output of the function, not its input.
_sigmoid_grad = tf.raw_ops.SigmoidGrad
_tanh_grad = tf.raw_ops.TanhGrad


def lstm(inputs, hidden, carry, kernel, recurrent_kernel, bias, mask=None):
    """Runs an LSTM over sequences.

    Args:
        inputs: float, (B, T, D). All other arguments have its dtype.
        hidden: initial hidden state h_0, (B, H).
        carry: initial cell state c_0, (B, H).
        kernel: input weights, (D, 4H), gates in the order input, forget, candidate, output.
        recurrent_kernel: (H, 4H).
        bias: (4H,).
        mask: bool, (B, T), False at steps to pass over; None for none.

    Returns:
        Hidden states (B, T, H), the last hidden state (B, H), the last cell state (B, H).

    Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 1999, no
    peepholes; the order of computation follows Appleyard et al. 2016, section 3.1
    (Müller 2017, section 3.5).
    """
    return _run(_lstm, mask, inputs, hidden, carry, kernel, recurrent_kernel, bias)


def gru(inputs, hidden, kernel, recurrent_kernel, bias, mask=None):
    """Runs a GRU over sequences, with the reset gate after the recurrent matmul.

    Args:
        inputs: float, (B, T, D). All other arguments have its dtype.
        hidden: initial hidden state h_0, (B, H).
        kernel: input weights, (D, 3H), gates in the order update, reset, candidate.
        recurrent_kernel: (H, 3H).
        bias: (2, 3H), for the input projection and for the recurrent one.
        mask: bool, (B, T), False at steps to pass over; None for none.

    Returns:
        Hidden states (B, T, H), the last hidden state (B, H).

    Source: Cho et al. 2014; the reset gate multiplies after the matmul, as in cuDNN and Keras
    (`reset_after=True`).
    """
    return _run(_gru, mask, inputs, hidden, kernel, recurrent_kernel, bias)


def rnn(inputs, hidden, kernel, recurrent_kernel, bias, mask=None):
    """Runs a vanilla RNN, h_t = tanh(x_t K + h_{t-1} R + b), over sequences.

    Args:
        inputs: float, (B, T, D). All other arguments have its dtype.
        hidden: initial hidden state h_0, (B, H).
        kernel: input weights, (D, H).
        recurrent_kernel: (H, H).
        bias: (H,).
        mask: bool, (B, T), False at steps to pass over; None for none.

    Returns:
        Hidden states (B, T, H), the last hidden state (B, H).

    Source: Elman 1990; Müller 2017, equation 2.7.
    """
    return _run(_rnn, mask, inputs, hidden, kernel, recurrent_kernel, bias)


def _run(function, mask, inputs, *others):
    """The results of a function of the mask, the inputs and others, with its own gradient."""
    kept, inputs = _kept(mask, inputs)
    # Tensors keep the values of a carried state, which is assigned before the gradient is computed.
    others = map(tf.convert_to_tensor, others)
    return custom_gradient(lambda *arguments: function(kept, *arguments))(inputs, *others)


def _rnn(kept, inputs, h_0, kernel, recurrent_kernel, bias):
    x = _swap_batch_and_time(inputs)
    projected = _project(x, kernel, bias)
    units = h_0.shape[-1]

    def step(t, h):
        y = tf.tanh(projected[t] + tf.matmul(h, recurrent_kernel))
        (h_next,) = _unless_masked(kept, t, (y,), (h,))
        return (h_next,), (h_next, y)

    (h_last,), (h, y) = _scan(step, (h_0,), x, widths=2 * [units])

    def grad(upstream, dh_last):
        dy = _swap_batch_and_time(upstream)
        back = tf.transpose(recurrent_kernel)

        def step_back(t, dh):
            (dh,), passed = _divided_by_mask(kept, t, (dh + dy[t],))
            dz = _tanh_grad(y=y[t], dy=dh)
            return _added((tf.matmul(dz, back),), passed), (dz,)

        (dh_0,), (dz,) = _scan(step_back, (dh_last,), x, widths=[units], reverse=True)
        dx, dkernel, dbias = _projection_grads(x, dz, kernel)
        return dx, dh_0, dkernel, _product_over_time(_previous(h_0, h), dz), dbias

    return (_outputs(h, inputs, units), h_last), grad


def _lstm(kept, inputs, h_0, c_0, kernel, recurrent_kernel, bias):
    x = _swap_batch_and_time(inputs)
    projected = _project(x, kernel, bias)
    units = h_0.shape[-1]

    def step(t, h, c):
        z = projected[t] + tf.matmul(h, recurrent_kernel)
        z_i, z_f, z_g, z_o = tf.split(z, 4, axis=1)
        i, f, g, o = tf.sigmoid(z_i), tf.sigmoid(z_f), tf.tanh(z_g), tf.sigmoid(z_o)
        c_next = f * c + i * g
        tanh_c = tf.tanh(c_next)
        h_next, c_next = _unless_masked(kept, t, (o * tanh_c, c_next), (h, c))
        return (h_next, c_next), (h_next, c, tanh_c, i, f, g, o)

    (h_last, c_last), (h, *saved) = _scan(step, (h_0, c_0), x, widths=7 * [units])

    def grad(upstream, dh_last, dc_last):
        dy = _swap_batch_and_time(upstream)
        back = tf.transpose(recurrent_kernel)

        def step_back(t, dh, dc):
            c, tanh_c, i, f, g, o = (tensor[t] for tensor in saved)
            (dh, dc), passed = _divided_by_mask(kept, t, (dh + dy[t], dc))
            dc += _tanh_grad(y=tanh_c, dy=dh * o)
            dz = tf.concat(
                [
                    _sigmoid_grad(y=i, dy=dc * g),
                    _sigmoid_grad(y=f, dy=dc * c),
                    _tanh_grad(y=g, dy=dc * i),
                    _sigmoid_grad(y=o, dy=dh * tanh_c),
                ],
                axis=1,
            )
            return _added((tf.matmul(dz, back), dc * f), passed), (dz,)

        (dh_0, dc_0), (dz,) = _scan(
            step_back, (dh_last, dc_last), x, widths=[4 * units], reverse=True
        )
        dx, dkernel, dbias = _projection_grads(x, dz, kernel)
        drecurrent = _product_over_time(_previous(h_0, h), dz)
        return dx, dh_0, dc_0, dkernel, drecurrent, dbias

    return (_outputs(h, inputs, units), h_last, c_last), grad


def _gru(kept, inputs, h_0, kernel, recurrent_kernel, bias):
    x = _swap_batch_and_time(inputs)
    projected = _project(x, kernel, bias[0])
    units = h_0.shape[-1]

    def step(t, h):
        x_z, x_r, x_g = tf.split(projected[t], 3, axis=1)
        recurrent = tf.nn.bias_add(tf.matmul(h, recurrent_kernel), bias[1])
        h_z, h_r, h_g = tf.split(recurrent, 3, axis=1)
        z, r = tf.sigmoid(x_z + h_z), tf.sigmoid(x_r + h_r)
        g = tf.tanh(x_g + r * h_g)
        (h_next,) = _unless_masked(kept, t, (g + z * (h - g),), (h,))
        return (h_next,), (h_next, z, r, g, h_g)

    (h_last,), (h, *saved) = _scan(step, (h_0,), x, widths=5 * [units])

    def grad(upstream, dh_last):
        dy = _swap_batch_and_time(upstream)
        back = tf.transpose(recurrent_kernel)
        h_before = _previous(h_0, h)

        def step_back(t, dh):
            z, r, g, h_g = (tensor[t] for tensor in saved)
            (dh,), passed = _divided_by_mask(kept, t, (dh + dy[t],))
            through_z = dh * z
            dx_g = _tanh_grad(y=g, dy=dh - through_z)
            dx_z = _sigmoid_grad(y=z, dy=dh * (h_before[t] - g))
            dx_r = _sigmoid_grad(y=r, dy=dx_g * h_g)
            dprojected = tf.concat([dx_z, dx_r, dx_g], axis=1)
            drecurrent = tf.concat([dx_z, dx_r, dx_g * r], axis=1)
            dh = through_z + tf.matmul(drecurrent, back)
            return _added((dh,), passed), (dprojected, drecurrent)

        (dh_0,), (dprojected, drecurrent) = _scan(
            step_back, (dh_last,), x, widths=2 * [3 * units], reverse=True
        )
        dx, dkernel, dbias_in = _projection_grads(x, dprojected, kernel)
        drecurrent_kernel = _product_over_time(h_before, drecurrent)
        dbias = tf.stack([dbias_in, _sum_over_time(drecurrent)])
        return dx, dh_0, dkernel, drecurrent_kernel, dbias

    return (_outputs(h, inputs, units), h_last), grad


def _scan(step, state, x, widths, reverse=False):
    """Carries a state through the time steps of x.

    Args:
        step: maps (t, *state) to the next state and the tensors (B, width) that it emits.
        state: tuple of tensors, the state before the first step.
        x: (T, B, D), of which only the shape and the dtype matter.
        widths: the widths of the emitted tensors.
        reverse: whether the steps run from the last to the first.

    Returns:
        The last state, and the emitted tensors stacked over time (T, B, width).
    """
    static_steps, batch = x.shape[:2]
    steps = tf.shape(x)[0] if static_steps is None else static_steps
    arrays = [tf.TensorArray(x.dtype, steps, element_shape=[batch, width]) for width in widths]

    def body(i, state, arrays):
        t = steps - 1 - i if reverse else i
        state, emitted = step(t, *state)
        return i + 1, state, [array.write(t, value) for array, value in zip(arrays, emitted)]

    _, state, arrays = tf.while_loop(
        lambda i, *_: i < steps, body, (tf.constant(0), tuple(state), arrays)
    )
    return state, [array.stack() for array in arrays]


def _kept(mask, inputs):
    """The mask as ones and zeros (T, B, 1), or None, and the inputs, zero at masked steps.

    Products are faster than `tf.where` in each step, but 0 times NaN is NaN.
    """
    if mask is None:
        return None, inputs
    dtype, inputs = inputs.dtype, tf.where(mask[..., tf.newaxis], inputs, 0)
    # `tf.cast` in its place would change places with the transposition when the graph is optimised,
    # and oneDNN prints an error when it has to transpose booleans.
    ones = tf.where(mask, tf.ones([], dtype), tf.zeros([], dtype))
    return tf.transpose(ones)[..., tf.newaxis], inputs


def _unless_masked(kept, t, new, old):
    """The new states, or the old ones where step t is masked."""
    if kept is None:
        return new
    return tuple(kept[t] * n + (1 - kept[t]) * o for n, o in zip(new, old))


def _divided_by_mask(kept, t, gradients):
    """The gradients of step t's new states, and those that pass by it to the step before."""
    if kept is None:
        return gradients, None
    return tuple(kept[t] * g for g in gradients), tuple((1 - kept[t]) * g for g in gradients)


def _added(gradients, passed):
    return gradients if passed is None else tuple(g + p for g, p in zip(gradients, passed))


def _swap_batch_and_time(x):
    return tf.transpose(x, [1, 0, 2])


def _rows(x):
    return tf.reshape(x, [-1, x.shape[-1]])


def _project(x, kernel, bias):
    """x·kernel + bias for all time steps, (T, B, gates)."""
    projected = tf.nn.bias_add(tf.matmul(_rows(x), kernel), bias)
    return tf.reshape(projected, tf.concat([tf.shape(x)[:2], tf.shape(bias)], axis=0))


def _projection_grads(x, dz, kernel):
    """Gradients of the inputs (B, T, D), the kernel and the bias."""
    dx = tf.reshape(tf.matmul(_rows(dz), tf.transpose(kernel)), tf.shape(x))
    return _swap_batch_and_time(dx), _product_over_time(x, dz), _sum_over_time(dz)


def _product_over_time(left, dz):
    return tf.matmul(_rows(left), _rows(dz), transpose_a=True)


def _sum_over_time(dz):
    # On a CPU a matmul is faster than `reduce_sum` over the rows.
    rows = _rows(dz)
    return tf.matmul(tf.ones([1, tf.shape(rows)[0]], rows.dtype), rows)[0]


def _previous(h_0, h):
    """h_{t-1} for every t: the initial state, then all states but the last."""
    return tf.concat([h_0[tf.newaxis], h[:-1]], axis=0)


def _outputs(h, inputs, units):
    outputs = _swap_batch_and_time(h)
    outputs.set_shape([inputs.shape[0], inputs.shape[1], units])  # The loop forgets a static T.
    return outputs
