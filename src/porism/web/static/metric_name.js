// How metrics are written, as porism.report.numbers does it.

/** A metric as people write it: "cross entropy", "CER". */
export const metricName = (metric) => metric.replaceAll("_", " ").replace(/\b(auc|cer|f1|wer)\b/g, (name) => name.toUpperCase());
