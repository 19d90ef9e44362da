# The persistent bucket is a separate library: kv_bucket and its tests need no store.
kv_library(kv_persistent_bucket
  SRCS persistent_bucket.cc persistent_bucket_warmup.cc vb_flush_target.cc
  DEPS kv_bucket kv_persistence kv_executor kv_log)
kv_test(persistent_allocation_failure_test SRCS persistent_allocation_failure_test.cc DEPS kv_persistent_bucket)  # replaces the heap
kv_test(persistent_bucket_test SRCS persistent_bucket_test.cc rollback_flush_test.cc DEPS kv_persistent_bucket kv_memory_hooks LABELS concurrent_slow)
kv_test(persistent_bucket_loss_test
  SRCS persistent_bucket_crash_test.cc persistent_bucket_loss_test.cc persistent_bucket_removal_test.cc rollback_property_test.cc
  DEPS kv_persistent_bucket kv_memory_hooks)
