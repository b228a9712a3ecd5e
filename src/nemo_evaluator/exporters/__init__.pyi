from nemo_evaluator.config.groups import EXPORTERS as EXPORTERS
from nemo_evaluator.exporters.base import ExportBundle as ExportBundle
from nemo_evaluator.exporters.base import Exporter as Exporter
from nemo_evaluator.exporters.base import ExportError as ExportError
from nemo_evaluator.exporters.base import export_bundles as export_bundles
from nemo_evaluator.exporters.base import get_exporter as get_exporter
from nemo_evaluator.exporters.base import register_exporter as register_exporter
