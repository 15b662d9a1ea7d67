# onnx_check.py -- runs the files that onnx_check.lua wrote through ONNX's checker and onnxruntime
#
#   python onnx_check.py FOLDER     prints differences above 1e-5 (relative for values above 1); then exits with 1
import glob
import os
import sys

import numpy
import onnx
import onnxruntime
from safetensors.numpy import load_file

failed = 0
paths = sorted(glob.glob(os.path.join(sys.argv[1], '*.onnx')))
verbose = len(sys.argv) > 2
for path in paths:
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])
        worst = 0
        for data in sorted(glob.glob(path[:-5] + '.*.safetensors')):
            tensors = load_file(data)
            inputs = {key[3:]: x for key, x in tensors.items() if key.startswith('in.')}
            names = [output.name for output in session.get_outputs()]
            for name, y in zip(names, session.run(names, inputs)):
                expected = tensors['out.' + name]
                if y.dtype != expected.dtype or y.shape != expected.shape:
                    raise ValueError(f'{data}: {name} is {y.dtype} {y.shape}, not {expected.dtype} {expected.shape}')
                if y.dtype == bool or y.dtype.kind in 'iu':
                    gap = float((y != expected).sum())
                else:
                    both = numpy.isfinite(y) & numpy.isfinite(expected)
                    if not numpy.array_equal(y[~both], expected[~both], equal_nan=True):
                        raise ValueError(f'{data}: {name} is not finite in other places')
                    gap = numpy.abs(y[both] - expected[both]) / numpy.maximum(1, numpy.abs(expected[both]))
                    gap = float(gap.max()) if gap.size else 0
                worst = max(worst, gap)
        if not worst <= 1e-5:
            raise ValueError(f'differs by {worst}')
        if verbose:
            print(f'{os.path.basename(path)}: {worst:.1e}')
    except Exception as error:
        failed += 1
        print(f'{os.path.basename(path)}: {str(error)[:600]}')
print(f'{len(paths)} files, {failed} wrong')
sys.exit(1 if failed or not paths else 0)
