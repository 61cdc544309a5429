"""The core of batches in C: ``core.c``, and its binding by ctypes.

Without the library, or with ``K2KTUI_NATIVE=off``, plain Python does the same, slower.
``k2ktui.log.core`` has what others call.
"""
