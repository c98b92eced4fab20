//! RocketMQ keys that Sluice has no use for, grouped by the reason.

use super::key_group::UnneededKeys;

const THREAD_POOLS: &str = "requests have no thread pools or queues of their own; see server.threads";
const FAST_FAILURE: &str = "no request waits in a queue; a busy broker stops reading from its publishers";
const SOCKETS: &str = "Sluice serves its sockets itself, and the kernel sizes their buffers";
const HEAP_POOLS: &str = "records are gathered in memory and written by one write; there is no heap pool";
const MAPPING: &str = "files are read and written by position, not mapped, so nothing is warmed or swapped";
const FLUSHING: &str = "the flush intervals of storage alone decide when files are written to disk";
const LOCKS: &str = "there is one short append lock, and nothing to choose about it";
const DISPATCH: &str = "queue entries are made when a record is appended; nothing reads the log again";
const RECOVERY: &str = "recovery checks every record after the last checkpoint, always";
const INDEX: &str = "storage.index_enabled alone decides about the index";
const DELETION: &str = "expired files are removed at once, without pacing between them";
const STATISTICS: &str = "counters and lags are metrics on the console port";
const EXPORTERS: &str = "metrics are on the console port for Prometheus, all of them, always";
const FILES: &str = "settings come from the file and the command line, and are not written back";
const REGISTRATION: &str = "all topics are registered together, every broker.registration_interval";
const OFFSETS: &str = "offsets are written whole, whenever they changed, every flush interval";
const DELIVERY: &str = "delayed messages are delivered in batches by one task";
const FETCHING: &str = "fetch.messages_max and fetch.size_max are the bounds; a reply that has to be read from the disk has at most 128 KiB, or one message";
const SUBSCRIPTIONS: &str = "a group's subscriptions are those of its members, and go with the last of them";
const ROCKSDB: &str = "queues, index and metadata are RocketMQ's files, not RocksDB";
const TOPIC_NAMES: &str = "the longest topic name is fixed at 127 bytes";
const ALWAYS: &str = "Sluice always does this";
const UNREAD: &str = "RocketMQ does not read it either; the paths follow storePathRootDir";
const WRITTEN: &str = "RocketMQ writes it when it changes its file, and does not read it";
const RETIRED: &str = "RocketMQ itself has given it up";
const LEASES: &str =
    "what pops have handed out is kept in memory and settled in the log; nothing is written and read again for it";
const POPS: &str = "every pop that waits is woken by its message, within the bounds of its connection";
const TESTING: &str = "it is for RocketMQ's own test environment";

#[rustfmt::skip] // several keys a line
pub(super) static KEYS: &[UnneededKeys] = &[
    UnneededKeys {
        reason: "a client's certificate that is asked for is always verified",
        keys: &["tls.server.authClient"],
    },
    UnneededKeys {
        reason: THREAD_POOLS,
        keys: &[
            "ackMessageThreadPoolNums", "ackThreadPoolQueueCapacity", "adminBrokerThreadPoolNums",
            "adminBrokerThreadPoolQueueCapacity", "asyncSendEnable", "clientManageThreadPoolNums",
            "clientManagerThreadPoolQueueCapacity", "clientRequestThreadPoolNums",
            "clientRequestThreadPoolQueueCapacity", "consumerManageThreadPoolNums",
            "consumerManagerThreadPoolQueueCapacity", "defaultThreadPoolNums", "defaultThreadPoolQueueCapacity",
            "endTransactionPoolQueueCapacity", "endTransactionThreadPoolNums", "heartbeatThreadPoolNums",
            "heartbeatThreadPoolQueueCapacity", "litePullMessageEnable", "litePullMessageThreadPoolNums",
            "litePullThreadPoolQueueCapacity", "loadBalanceProcessorThreadPoolNums",
            "loadBalanceThreadPoolQueueCapacity", "processReplyMessageThreadPoolNums", "pullMessageThreadPoolNums",
            "pullThreadPoolQueueCapacity", "putMessageFutureThreadPoolNums", "putThreadPoolQueueCapacity",
            "queryMessageThreadPoolNums", "queryThreadPoolQueueCapacity", "replyThreadPoolQueueCapacity",
            "sendMessageThreadPoolNums", "sendThreadPoolQueueCapacity", "unRegisterBrokerQueueCapacity",
        ],
    },
    UnneededKeys {
        reason: FAST_FAILURE,
        keys: &[
            "brokerFastFailureEnable", "enableNetWorkFlowControl", "highSpeedMode", "maxAsyncPutMessageRequests",
            "osPageCacheBusyTimeOutMills", "putMessageTimeout", "startAcceptSendRequestTimeStamp",
            "waitTimeMillsInAckQueue", "waitTimeMillsInAdminBrokerQueue", "waitTimeMillsInHeartbeatQueue",
            "waitTimeMillsInLitePullQueue", "waitTimeMillsInPullQueue", "waitTimeMillsInSendQueue",
            "waitTimeMillsInTransactionQueue",
        ],
    },
    UnneededKeys {
        reason: LEASES,
        keys: &[
            "appendAckAsync", "appendCkAsync", "enablePopBatchAck", "enablePopBufferMerge", "enablePopLog",
            "enablePopMessageThreshold", "enableRetryTopicV2", "enableSkipLongAwaitingAck",
            "initPopOffsetByCheckMsgInMem", "popCkMaxBufferSize", "popCkOffsetMaxQueueSize", "popCkStayBufferTime",
            "popCkStayBufferTimeOut", "popConsumerFSServiceInit", "popConsumerKVServiceEnable",
            "popConsumerKVServiceInit", "popConsumerKVServiceLog", "popFromRetryProbability",
            "popFromRetryProbabilityForPriority", "popInflightMessageThreshold", "popResponseReturnActualRetryTopic",
            "popReviveConcurrency", "popReviveMaxAttemptTimes", "popReviveMaxReturnSizePerRead",
            "retrieveMessageFromPopRetryTopicV1", "reviveAckWaitMs", "reviveInterval", "reviveMaxSlow",
            "reviveQueueNum", "reviveScanTime", "skipWhenCKRePutReachMaxTimes", "useSeparateRetryQueue",
        ],
    },
    UnneededKeys {
        reason: POPS,
        keys: &[
            "enableNotifyAfterPopOrderLockRelease", "enableNotifyBeforePopCalculateLag", "maxPopPollingSize",
            "popLongPollingForceNotifyInterval", "popPollingMapExpireTimeSeconds", "popPollingMapSize",
            "popPollingSize",
        ],
    },
    UnneededKeys { reason: SUBSCRIPTIONS, keys: &["subscriptionExpiredTimeout"] },
    UnneededKeys {
        reason: SOCKETS,
        keys: &[
            "channelNotActiveInterval", "clientAsyncSemaphoreValue", "clientCallbackExecutorThreads",
            "clientChannelMaxIdleTimeSeconds", "clientCloseSocketIfTimeout", "clientOnewaySemaphoreValue",
            "clientPooledByteBufAllocatorEnable", "clientSocketRcvBufSize", "clientSocketSndBufSize",
            "clientWorkerThreads", "connectTimeoutMillis", "disableCallbackExecutor", "disableNettyWorkerGroup",
            "enableFastChannelEventProcess", "enableReconnectForGoAway", "maxReconnectIntervalTimeSeconds",
            "scanAvailableNameSrv", "serverAsyncSemaphoreValue", "serverCallbackExecutorThreads",
            "serverNettyWorkerGroupEnable", "serverOnewaySemaphoreValue", "serverPooledByteBufAllocatorEnable",
            "serverSelectorThreads", "serverSocketRcvBufSize", "serverSocketSndBufSize", "serverWorkerThreads",
            "useEpollNativeSelector", "writeBufferHighWaterMark", "writeBufferLowWaterMark",
        ],
    },
    UnneededKeys {
        reason: HEAP_POOLS,
        keys: &[
            "commitCommitLogLeastPages", "commitCommitLogThoroughInterval", "commitIntervalCommitLog",
            "fastFailIfNoBufferInStorePool", "sharedByteBufferNum", "transferMsgByHeap", "transientStorePoolEnable",
            "transientStorePoolSize", "wakeCommitWhenPutMessage",
        ],
    },
    UnneededKeys {
        reason: MAPPING,
        keys: &[
            "accessMessageInMemoryHotRatio", "accessMessageInMemoryMaxRatio", "cleanSwapedMapInterval",
            "commitLogForceSwapMapInterval", "commitLogSwapMapInterval", "commitLogSwapMapReserveFileNum",
            "dataReadAheadEnable", "destroyMapedFileIntervalForcibly", "flushLeastPagesWhenWarmMapedFile",
            "logicQueueForceSwapMapInterval", "logicQueueSwapMapInterval", "logicQueueSwapMapReserveFileNum",
            "mappedFileSwapEnable", "putConsumeQueueDataByFileChannel", "redeleteHangedFileInterval",
            "warmMapedFileEnable", "writeWithoutMmap",
        ],
    },
    UnneededKeys {
        reason: FLUSHING,
        keys: &[
            "enableRunningFlagsInFlush", "flushCommitLogLeastPages", "flushCommitLogThoroughInterval",
            "flushCommitLogTimed", "flushConsumeQueueLeastPages", "flushConsumeQueueThoroughInterval",
            "wakeFlushWhenPutMessage",
        ],
    },
    UnneededKeys {
        reason: LOCKS,
        keys: &[
            "debugLockEnable", "spinLockCollisionRetreatOptimalDegree", "topicQueueLockNum", "useABSLock",
            "useReentrantLockWhenPutMessage",
        ],
    },
    UnneededKeys {
        reason: DISPATCH,
        keys: &[
            "batchDispatchRequestThreadPoolNums", "correctLogicMinOffsetForceInterval",
            "correctLogicMinOffsetSleepInterval", "dispatchCqCacheNum", "dispatchCqThreads",
            "dispatchFromSenderThread", "enableAsyncReput", "enableBuildConsumeQueueConcurrently",
            "enableLogConsumeQueueRepeatedlyBuildWhenRecover", "putMsgIndexHightWater", "readUnCommitted",
            "recheckReputOffsetFromCq",
        ],
    },
    UnneededKeys {
        reason: RECOVERY,
        keys: &[
            "checkCRCOnRecover", "commitLogRecoverMaxNum", "enableAcceleratedRecovery", "forceVerifyPropCRC",
            "maxRecoveryCommitlogFiles", "messageIndexSafe", "recoverConcurrently", "recoverThreadPoolNums",
        ],
    },
    UnneededKeys { reason: INDEX, keys: &["indexFileReadEnable", "indexFileWriteEnable"] },
    UnneededKeys {
        reason: DELETION,
        keys: &[
            "deleteCommitLogFilesInterval", "deleteConsumeQueueFilesInterval", "deleteFileBatchMax",
            "logicalDiskSpaceCleanForciblyThreshold", "maxBatchDeleteFilesNum", "replicasPerDiskPartition",
        ],
    },
    UnneededKeys {
        reason: STATISTICS,
        keys: &[
            "accountStatsEnable", "accountStatsPrintZeroValues", "autoDeleteUnusedStats", "commercialBaseCount",
            "commercialBigCount", "commercialEnable", "commercialSizePerMsg", "commercialTimerCount",
            "commercialTransCount", "diskFallRecorded", "enableDetailStat", "enableScheduleMessageStats",
            "estimateAccumulation", "isolateLogEnable", "maxConsumeQueueScan", "maxStatsIdleTimeInMinutes",
            "printChannelGroups", "printChannelGroupsMinNum", "sampleCountThreshold", "sampleSteps",
        ],
    },
    UnneededKeys {
        reason: EXPORTERS,
        keys: &[
            "enableConnectionMetrics", "enableLagAndDlqMetrics", "enableMessageStoreMetrics", "enablePopMetrics",
            "enableRemotingMetrics", "enableRequestMetrics", "enableStatsMetrics", "enableTransactionMetrics",
            "metricsOtelCardinalityLimit", "metricsPromExporterHost", "metricsPromExporterPort",
            "transactionMetricFlushInterval",
        ],
    },
    UnneededKeys {
        reason: FILES,
        keys: &["brokerConfigPath", "configBlackList", "configStorePath", "rocketmqHome"],
    },
    UnneededKeys {
        reason: REGISTRATION,
        keys: &[
            "brokerHeartbeatInterval", "brokerNotActiveTimeoutMillis", "compatibleWithOldNameSrv",
            "compressedRegister", "enableSingleTopicRegister", "enableSplitMetadata", "enableSplitRegistration",
            "fetchNamesrvAddrInterval", "forceRegister", "loadBalancePollNameServerInterval",
            "sendHeartbeatTimeoutMillis", "splitMetadataSize", "splitRegistrationSize", "updateNameServerAddrPeriod",
        ],
    },
    UnneededKeys {
        reason: OFFSETS,
        keys: &[
            "consumerOffsetUpdateVersionStep", "delayOffsetUpdateVersionStep", "enableCleanExpiredOffset",
            "flushConsumerOffsetHistoryInterval",
        ],
    },
    UnneededKeys {
        reason: DELIVERY,
        keys: &[
            "enableScheduleAsyncDeliver", "scheduleAsyncDeliverMaxPendingLimit",
            "scheduleAsyncDeliverMaxResendNum2Blocked",
        ],
    },
    UnneededKeys {
        reason: FETCHING,
        keys: &[
            "maxFilterMessageSize", "maxTransferBytesOnMessageInDisk",
            "maxTransferCountOnMessageInDisk", "pullBatchMaxMessageCount", "searchBcqByCacheEnable",
            "travelCqFileNumWhenGetMessage",
        ],
    },
    UnneededKeys {
        reason: ROCKSDB,
        keys: &[
            "bottomMostCompressionTypeForConsumeQueueStore", "cleanRocksDBDirtyCQIntervalMin",
            "combineAssignOffsetCQType", "combineCQEnableCheckSelf", "combineCQLoadingCQTypes",
            "combineCQMaxExtraSearchCommitLogFiles", "combineCQPreferCQType", "enableRocksDBLog",
            "indexRocksDBEnable", "maxRocksDBIndexQueryDays", "memTableFlushIntervalMs",
            "realTimePersistRocksDBConfig", "rocksdbCQDoubleWriteEnable", "rocksdbCompressionType",
            "rocksdbFlushWalFrequency", "rocksdbWalFileRollingThreshold", "statRocksDBCQIntervalSec",
            "useSingleRocksDBForAllConfigs",
        ],
    },
    UnneededKeys {
        reason: TOPIC_NAMES,
        keys: &["autoMessageVersionOnTopicLen", "maxTopicLength"],
    },
    UnneededKeys {
        reason: ALWAYS,
        keys: &[
            "enableShutdownGracefully", "realTimeNotifyConsumerChange", "validateSystemTopicWhenUpdateTopic",
        ],
    },
    UnneededKeys {
        reason: UNREAD,
        keys: &["abortFile", "storeCheckpoint", "storePathConsumeQueue", "storePathIndex"],
    },
    UnneededKeys {
        reason: WRITTEN,
        keys: &[
            "isBrokerContainer", "isEnableBatchPush", "isInBrokerContainer", "isProcessReadEvent", "isScanAvailableNameSrv",
            "timerCheckMetricsWhen", "timerEnableDisruptor", "timerStopDequeue", "timerWarmEnable",
        ],
    },
    UnneededKeys {
        reason: RETIRED,
        keys: &["checkTransactionMessageEnable", "filterServerNums", "maxDelayTime"],
    },
    UnneededKeys { reason: TESTING, keys: &["clusterTest", "productEnvName"] },
];
