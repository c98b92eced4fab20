//! RocketMQ keys of features that Sluice does not have yet.
//!
//! A value that asks for such a feature is a warning, or an error where a broker without it would
//! be unsafe: open instead of guarded, alone instead of replicated, or blind to stored data.

use super::key_group::LaterKeys;
use super::key_group::When::{Is, IsNot, True};

#[rustfmt::skip] // several keys a line
pub(super) static KEYS: &[LaterKeys] = &[
    LaterKeys {
        feature: "transactions",
        tune: &[
            "rejectTransactionMessage", "transRocksDBEnable", "transWriteOriginTransHalfEnable",
            "transactionCheckInterval", "transactionCheckMax", "transactionOpBatchInterval",
            "transactionOpMsgMaxSize", "transactionTimeOut",
        ],
        warn: &[],
        refuse: &[],
    },
    LaterKeys {
        feature: "replication",
        tune: &[
            "allAckInSyncStateSet", "asyncLearner", "brokerIP2", "cleanOfflineBrokerInterval",
            "disappearTimeAfterStart", "enableAutoInSyncReplicas", "forwardTimeout", "haFlowControlEnable",
            "haMaxTimeSlaveNotCatchup", "haSlaveFallbehindMax", "haTransferBatchSize", "maxChecksumRange",
            "maxHaTransferByteInSecond", "maxSlaveResendLength", "offsetCheckInSlave", "skipPreOnline",
            "storePathBrokerIdentity", "storePathEpochFile", "syncBrokerMemberGroupPeriod",
            "syncBrokerMetadataPeriod", "syncFromLastFile", "syncMasterFlushOffsetWhenStartup",
        ],
        warn: &[
            ("duplicationEnable", True), ("enableRemoteEscape", True), ("lockInStrictMode", True),
            ("minInSyncReplicas", IsNot("1")), ("totalReplicas", IsNot("1")),
        ],
        refuse: &[],
    },
    LaterKeys {
        feature: "controller mode",
        tune: &[
            "brokerElectionPriority", "checkSyncStateSetPeriod", "controllerAddr", "controllerDLegerGroup",
            "controllerDLegerPeers", "controllerDLegerSelfId", "controllerHeartBeatTimeoutMills",
            "controllerRequestThreadPoolQueueCapacity", "controllerStorePath", "controllerThreadPoolNums",
            "controllerType", "electMasterMaxRetryCount", "enableElectUncleanMaster",
            "fetchControllerAddrByDnsLookup", "jRaftControllerRPCAddr", "jRaftElectionTimeoutMs", "jRaftGroupId",
            "jRaftInitConf", "jRaftScanWaitTimeoutMs", "jRaftServerId", "jRaftSnapshotIntervalSecs", "mappedFileSize",
            "notifyBrokerRoleChanged", "processReadEvent", "scanInactiveMasterInterval",
            "syncControllerMetadataPeriod",
        ],
        warn: &[],
        refuse: &[("enableControllerInNamesrv", True), ("enableControllerMode", True)],
    },
    LaterKeys {
        feature: "DLedger replication",
        tune: &[
            "dLegerGroup", "dLegerPeers", "dLegerSelfId", "enableBatchPush", "preferredLeaderId",
            "storePathDLedgerCommitLog",
        ],
        warn: &[],
        refuse: &[("enableDLegerCommitLog", True)],
    },
    LaterKeys {
        feature: "access control",
        tune: &[
            "aclCacheExpiredSecond", "aclCacheMaxNum", "aclCacheRefreshSecond", "authConfigPath",
            "authenticationMetadataProvider", "authenticationProvider", "authenticationStrategy",
            "authenticationWhitelist", "authorizationMetadataProvider", "authorizationProvider",
            "authorizationStrategy", "authorizationWhitelist", "clusterName", "configName", "initAuthenticationUser",
            "innerClientAuthenticationCredentials", "statefulAuthenticationCacheExpiredSecond",
            "statefulAuthenticationCacheMaxNum", "statefulAuthorizationCacheExpiredSecond",
            "statefulAuthorizationCacheMaxNum", "userCacheExpiredSecond", "userCacheMaxNum", "userCacheRefreshSecond",
        ],
        warn: &[("migrateAuthFromV1Enabled", True)],
        refuse: &[("aclEnable", True), ("authenticationEnabled", True), ("authorizationEnabled", True)],
    },
    LaterKeys {
        feature: "private keys with a password (openssl pkey -in KEY -out PLAIN writes one without: name that file instead)",
        tune: &[],
        warn: &[],
        refuse: &[("tls.client.keyPassword", IsNot("")), ("tls.server.keyPassword", IsNot(""))],
    },
    LaterKeys {
        feature: "a file of its own for TLS (its lines can stand in this file)",
        tune: &[],
        warn: &[],
        refuse: &[("tls.config.file", IsNot(""))],
    },
    LaterKeys {
        feature: "queues and metadata in RocksDB",
        tune: &[],
        warn: &[],
        refuse: &[("configManagerVersion", IsNot("v1")), ("storeType", IsNot("default"))],
    },
    LaterKeys {
        feature: "tiered storage",
        tune: &[
            "commitLogRollingInterval", "commitLogRollingMinimumSize", "objectStoreAccessKey", "objectStoreBucket",
            "objectStoreEndpoint", "objectStoreSecretKey", "readAheadCacheEnable", "readAheadCacheExpireDuration",
            "readAheadCacheSizeThresholdRate", "readAheadMessageCountThreshold", "readAheadMessageSizeThreshold",
            "recordGetMessageResult", "tieredBackendServiceProvider", "tieredMetadataServiceProvider",
            "tieredStorageLevel", "tieredStoreCommitLogMaxSize", "tieredStoreConsumeQueueMaxSize",
            "tieredStoreCrcCheckEnable", "tieredStoreDeleteFileEnable", "tieredStoreDeleteFileInterval",
            "tieredStoreFilePath", "tieredStoreFileReservedTime", "tieredStoreGroupCommit",
            "tieredStoreGroupCommitCount", "tieredStoreGroupCommitSize", "tieredStoreGroupCommitTimeout",
            "tieredStoreIndexFileMaxHashSlotNum", "tieredStoreIndexFileMaxIndexNum", "tieredStoreMaxGroupCommitCount",
            "tieredStoreMaxPendingLimit",
        ],
        warn: &[],
        refuse: &[],
    },
    LaterKeys {
        feature: "storage plug-ins, tiered storage among them",
        tune: &[],
        warn: &[("messageStorePlugIn", IsNot(""))],
        refuse: &[],
    },
    LaterKeys {
        feature: "messages timed to the second, and their recall",
        tune: &[
            "allowRecallWhenBrokerNotWriteable", "appendTopicForTimerDeleteKey", "mappedFileSizeTimerLog",
            "timerColdDataCheckIntervalMs", "timerCongestNumEachSlot", "timerEnableCheckMetrics",
            "timerEnableRetryUntilSuccess", "timerFlushIntervalMs", "timerGetMessageThreadNum",
            "timerInterceptDelayLevel", "timerMaxDelaySec", "timerMetricSmallThreshold", "timerPrecisionMs",
            "timerProgressLogIntervalMs", "timerPutMessageThreadNum", "timerRecallToTimeWheelEnable",
            "timerRecallToTimelineEnable", "timerRocksDBPrecisionMs", "timerRocksDBRollIntervalHours",
            "timerRocksDBRollMaxTps", "timerRocksDBRollRangeHours", "timerRocksDBStopScan",
            "timerRocksDBTimeExpiredMaxTps", "timerRollWindowSlot", "timerSkipUnknownError", "timerStopEnqueue",
            "timerWheelSnapshotFlush", "timerWheelSnapshotIntervalMs",
        ],
        warn: &[("recallMessageEnable", True), ("timerRocksDBEnable", True), ("timerWheelEnable", True)],
        refuse: &[],
    },
    LaterKeys {
        feature: "filters by SQL expression",
        tune: &[
            "bitMapLengthConsumeQueueExt", "expectConsumerNumUseFilter", "filterDataCleanTimeSpan",
            "mapedFileSizeConsumeQueueExt", "mappedFileSizeConsumeQueueExt", "maxErrorRateOfBloomFilter",
        ],
        warn: &[
            ("enableCalcFilterBitMap", True), ("enableConsumeQueueExt", True), ("enablePropertyFilter", True),
            ("filterSupportRetry", True),
        ],
        refuse: &[],
    },
    LaterKeys {
        feature: "compacted topics",
        tune: &[
            "compactionCqMappedFileSize", "compactionMappedFileSize", "compactionScheduleInternal",
            "compactionThreadNum", "maxOffsetMapSize",
        ],
        warn: &[("enableCompaction", True)],
        refuse: &[],
    },
    LaterKeys {
        feature: "light queues and batch queues",
        tune: &["enableLmqStats", "mapperFileSizeBatchConsumeQueue", "maxLmqConsumeQueueNum"],
        warn: &[("enableLmq", True), ("enableMultiDispatch", True)],
        refuse: &[],
    },
    LaterKeys {
        feature: "limits on reading old messages",
        tune: &[
            "cgColdReadThreshold", "consumerFallbehindThreshold", "globalColdReadThreshold", "usePIDColdCtrStrategy",
        ],
        warn: &[
            ("coldCtrStrategyEnable", True), ("coldDataFlowControlEnable", True), ("coldDataScanEnable", True),
            ("disableConsumeIfConsumerReadSlowly", True), ("rejectPullConsumerEnable", True),
        ],
        refuse: &[],
    },
    LaterKeys {
        feature: "request and reply",
        tune: &[],
        warn: &[("storeReplyMessageEnable", True)],
        refuse: &[],
    },
    LaterKeys {
        feature: "finding name servers by address server or DNS",
        tune: &["rmqAddressServerDomain", "rmqAddressServerSubGroup"],
        warn: &[("fetchNameSrvAddrByDnsLookup", True), ("fetchNamesrvAddrByAddressServer", True)],
        refuse: &[],
    },
    LaterKeys {
        feature: "connections through a SOCKS proxy",
        tune: &[],
        warn: &[("socksProxyConfig", IsNot("{}"))],
        refuse: &[],
    },
    LaterKeys {
        feature: "metrics that are pushed or logged",
        tune: &[
            "metricGrpcExporterIntervalInMills", "metricGrpcExporterTimeOutInMills",
            "metricLoggingExporterIntervalInMills", "metricsGrpcExporterHeader", "metricsGrpcExporterTarget",
            "metricsInDelta", "metricsLabel",
        ],
        warn: &[("metricsExporterType", Is("OTLP_GRPC"))],
        refuse: &[],
    },
    LaterKeys {
        feature: "several brokers in one process",
        tune: &[],
        warn: &[("inBrokerContainer", True)],
        refuse: &[],
    },
    LaterKeys {
        feature: "a log spread over several directories",
        tune: &[],
        warn: &[],
        refuse: &[("readOnlyCommitLogStorePaths", IsNot(""))],
    },
    LaterKeys {
        feature: "a name server that waits for its brokers",
        tune: &["waitSecondsForService"],
        warn: &[("needWaitForService", True)],
        refuse: &[],
    },
    LaterKeys {
        feature: "RocketMQ 5 rules for topics, groups and clients",
        tune: &[
            "broadcastOffsetExpireMaxSecond", "broadcastOffsetExpireSecond", "clearRetryTopicWhenDeleteTopic",
            "enableBroadcastOffsetStore", "enableCreateSysGroup", "enableMixedMessageType", "enableRegisterProducer",
            "priorityOrderAsc", "useServerSideResetOffset",
        ],
        warn: &[("useStaticSubscription", True)],
        refuse: &[],
    },
];
