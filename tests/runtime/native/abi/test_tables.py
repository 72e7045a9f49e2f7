"""Tables for the end of a native kernel."""

import numpy as np

from triton_dsl.runtime.native.abi.tables import threshold_table, trit_sums


def test_floats_keep_their_order_as_integers() -> None:
    values = [-np.inf, -2.0, -1e-45, -0.0, 0.0, 1e-45, 1.5, np.inf, np.nan]
    keys = threshold_table(np.array([values], np.float32))[:, 0]
    assert keys.dtype == np.int32
    assert keys[3] == keys[4]
    distinct = np.delete(keys, 3)
    assert (np.diff(distinct.astype(np.int64)) > 0).all()
    assert keys[-1] == threshold_table(np.array([[-np.nan]], np.float32))[0, 0]


def test_integers_are_turned_so_that_outputs_follow_each_other() -> None:
    thresholds = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    assert threshold_table(thresholds).tolist() == [[1, 4], [2, 5], [3, 6]]


def test_trits_are_summed_for_each_output() -> None:
    assert trit_sums(np.array([[1, 1, -1], [0, -1, 0]], np.int8)).tolist() == [1, -1]
